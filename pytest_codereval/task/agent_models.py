"""Who does the work: the `agent` block, by its type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AliasChoices,
    BeforeValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .base import Finding, StrictModel, problem, raise_findings
from .fields import AtLeastOne, Command, HostPath, NonBlank, PositiveInt, PositiveNumber, Weight
from .nearest import hint
from .sandbox_models import IgnorePatterns

OWNED_SDK_OPTIONS = frozenset(
    {
        *("add_dirs", "agents", "allowed_tools", "can_use_tool", "cli_path", "continue_conversation", "cwd"),
        *("debug_stderr", "disallowed_tools", "enable_file_checkpointing", "env", "extra_args", "fallback_model"),
        *("fork_session", "hooks", "include_partial_messages", "max_budget_usd", "max_buffer_size", "max_turns"),
        *("mcp_servers", "model", "output_format", "permission_mode", "permission_prompt_tool_name", "plugins"),
        *("resume", "sandbox", "session_id", "session_store", "setting_sources", "settings", "skills", "stderr"),
        *("system_prompt", "tools", "user"),
    }
)
PermissionMode = Literal["default", "acceptEdits", "plan", "bypassPermissions"]


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _path_or_mapping(value: Any) -> Any:
    if value is None or isinstance(value, str | Mapping):
        return value
    raise problem("expected a path or a mapping")


class Plugin(StrictModel):
    """A directory with skills, commands, agents and hooks."""

    type: Literal["local"] = "local"
    path: HostPath


class AgentConfig(StrictModel):
    """What all agents have in common; also an agent whose type is chosen elsewhere."""

    context_range: ClassVar[tuple[int, int | None] | None] = None
    """Smallest and largest `context_window`; None when the type cannot limit it."""

    type: str | None = None
    model: NonBlank | None = None
    permission_mode: PermissionMode = "acceptEdits"
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] | None = None
    plugins: tuple[Plugin, ...] | None = None
    system_prompt: Annotated[str | None, BeforeValidator(_blank_is_none)] = None
    system_prompt_file: HostPath | None = None
    context_window: PositiveInt | None = None
    ignore_patterns: IgnorePatterns = Field(
        default=(), validation_alias=AliasChoices("ignore_patterns", "additional_ignore_patterns")
    )

    @model_validator(mode="after")
    def _check(self) -> AgentConfig:
        raise_findings(type(self).__name__, self.findings(), self.__dict__)
        return self

    def findings(self) -> list[Finding]:
        """What is wrong with this block, beyond its single values."""
        found = []
        if self.system_prompt is not None and self.system_prompt_file is not None:
            found.append(Finding(("system_prompt_file",), "system_prompt and system_prompt_file exclude each other"))
        if self.context_window is not None and self.type is not None:
            found.extend(self._window_findings(self.context_window))
        return found

    def _window_findings(self, window: int) -> list[Finding]:
        if self.context_range is None:
            return [Finding(("context_window",), f"the agent {self.type} cannot limit its context")]
        low, high = self.context_range
        if window < low or (high is not None and window > high):
            return [Finding(("context_window",), f"expected {low} to {high}" if high else f"expected at least {low}")]
        return []


class ClaudeCodeAgent(AgentConfig):
    """Claude Code."""

    context_range = (100_000, 1_000_000)

    type: Literal["claude-code"] = "claude-code"
    system_prompt_mode: Literal["append", "replace"] = "append"
    claude_settings: Annotated[str | dict[str, Any] | None, BeforeValidator(_path_or_mapping)] = None
    sdk_options: dict[str, Any] = Field(default_factory=dict)
    setting_sources: tuple[Literal["user", "project", "local"], ...] | None = None

    @field_validator("sdk_options")
    @classmethod
    def _not_ours(cls, options: dict[str, Any]) -> dict[str, Any]:
        owned = sorted(OWNED_SDK_OPTIONS & options.keys())
        if owned:
            raise problem(f"set by the harness or by a key of its own: {', '.join(owned)}")
        return options

    def findings(self) -> list[Finding]:
        found = super().findings()
        if self.system_prompt_mode == "replace" and self.system_prompt is None and self.system_prompt_file is None:
            found.append(Finding(("system_prompt_mode",), "replace needs system_prompt or system_prompt_file"))
        settings = self.claude_settings
        if self.context_window is not None and isinstance(settings, dict) and "autoCompactWindow" in settings:
            found.append(Finding(("context_window",), "claude_settings.autoCompactWindow says the same; give one"))
        return found


class CodexAgent(AgentConfig):
    """Codex."""

    context_range = (32_768, None)

    type: Literal["codex"] = "codex"


class AntigravityAgent(AgentConfig):
    """Antigravity."""

    type: Literal["antigravity"] = "antigravity"
    thinking_level: Literal["minimal", "low", "medium", "high"] = "medium"


class OpencodeAgent(AgentConfig):
    """OpenCode."""

    type: Literal["opencode"] = "opencode"
    variant: NonBlank | None = None
    pure: bool = True
    require_token_telemetry: bool = True


class PiAgent(AgentConfig):
    """Pi."""

    type: Literal["pi"] = "pi"
    thinking_level: Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"] = "medium"


class DelegateOptions(StrictModel):
    """The one option that may be set."""

    effort: NonBlank | None = None


class DelegateAgent(AgentConfig):
    """Delegate."""

    type: Literal["delegate"] = "delegate"
    sdk_options: DelegateOptions = Field(default_factory=DelegateOptions)
    project_id: str | None = None
    session_id: str | None = None
    enable_computer_use: bool = False


class NoAgent(AgentConfig):
    """No agent: the criteria judge what was staged."""

    type: Literal["none"] = "none"


class WriteStep(StrictModel):
    """Write a file; a relative path starts in the workspace."""

    path: HostPath
    content: str


class ToolStep(StrictModel):
    """A tool call that is only told, not done."""

    name: NonBlank
    parameters: dict[str, Any] = Field(default_factory=dict)
    status: Literal["success", "error", "unknown"] = "success"
    output: str = ""


class ScriptStep(StrictModel):
    """One step of a script agent: exactly one of its keys; `timeout` (seconds) goes with `bash`, `sleep` is seconds."""

    kinds: ClassVar[tuple[str, ...]] = ("bash", "write", "tool", "say", "sleep", "crash")

    bash: Command | None = None
    timeout: PositiveNumber | None = None
    write: WriteStep | None = None
    tool: ToolStep | None = None
    say: str | None = None
    sleep: Weight | None = None
    crash: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> ScriptStep:
        used = [kind for kind in self.kinds if getattr(self, kind) is not None]
        found = []
        if len(used) != 1:
            given = " and ".join(used) or "none"
            found.append(Finding((), f"a step has exactly one of {', '.join(self.kinds)}; found {given}"))
        elif self.timeout is not None and self.bash is None:
            found.append(Finding(("timeout",), "timeout belongs to bash"))
        raise_findings("ScriptStep", found)
        return self

    @property
    def kind(self) -> str:
        """Which of the keys this step has."""
        return next(kind for kind in self.kinds if getattr(self, kind) is not None)


class ScriptAgent(AgentConfig):
    """Steps that are written in the task and run for real, without a model."""

    type: Literal["script"] = "script"
    steps: tuple[ScriptStep, ...]


class AnthropicAgent(AgentConfig):
    """A plain tool loop over the Anthropic API."""

    type: Literal["anthropic"] = "anthropic"
    max_tokens: PositiveInt | None = None
    base_url: NonBlank | None = None


class CommandAgent(AgentConfig):
    """Any program: its argv, and how it takes the prompt (a `{prompt}` or `{prompt_file}` argument, or stdin)."""

    type: Literal["command"] = "command"
    command: Annotated[tuple[Command, ...], AtLeastOne]
    prompt_mode: Literal["stdin", "argument", "file"] = "stdin"


class ReplayAgent(AgentConfig):
    """A recorded trial, told again."""

    type: Literal["replay"] = "replay"
    record: HostPath


AGENT_MODELS: dict[str, type[AgentConfig]] = {
    "claude-code": ClaudeCodeAgent,
    "codex": CodexAgent,
    "antigravity": AntigravityAgent,
    "opencode": OpencodeAgent,
    "pi": PiAgent,
    "delegate": DelegateAgent,
    "none": NoAgent,
    "script": ScriptAgent,
    "anthropic": AnthropicAgent,
    "command": CommandAgent,
    "replay": ReplayAgent,
}
JUDGE_AGENTS = ("claude-code", "codex", "antigravity", "opencode", "pi", "delegate")


def parse_agent(value: Any, info: ValidationInfo) -> AgentConfig:
    """Return the agent block by its type; without a type, what all agents have in common."""
    if isinstance(value, AgentConfig):
        return value
    if not isinstance(value, Mapping):
        raise problem("expected a mapping with the agent's type")
    kind = value.get("type")
    if kind is None:
        return AgentConfig.model_validate(value, context=info.context)
    if not isinstance(kind, str) or kind not in AGENT_MODELS:
        raise_findings("agent", [Finding(("type",), _unknown_agent(kind, AGENT_MODELS))], value)
    return AGENT_MODELS[kind].model_validate(value, context=info.context)


def parse_judge_agent(value: Any, info: ValidationInfo) -> AgentConfig:
    """Return the agent of a judge: claude-code unless it says otherwise."""
    if isinstance(value, Mapping):
        value = {**value, "type": value.get("type") or "claude-code"}
        if value["type"] not in JUDGE_AGENTS:
            raise_findings("agent", [Finding(("type",), _unknown_agent(value["type"], JUDGE_AGENTS))], value)
    return parse_agent(value, info)


def _unknown_agent(kind: Any, valid: Any) -> str:
    shown = kind[:80] if isinstance(kind, str) else kind
    return f"no agent is called {shown!r}{hint(str(kind), valid)} (agents: {', '.join(valid)})"


Agent = Annotated[SerializeAsAny[AgentConfig], PlainValidator(parse_agent)]
