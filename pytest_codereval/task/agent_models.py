"""Who does the work: the `agent` block, by its type."""

from __future__ import annotations

import re
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

from .base import Finding, StrictModel, WholeModel, problem, raise_findings
from .fields import AtLeastOne, Command, HostPath, NonBlank, OutputText, PositiveInt
from .layering.merging import FREE, NAMED, Merging
from .nearest import hint
from .sandbox_models import IgnorePatterns
from .script_models import ScriptStep

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
OWNED_CODEX_SETTINGS: Mapping[str, str] = {
    **dict.fromkeys(("model_provider", "model_providers", "profile", "profiles", "approval_policy"), ""),
    **dict.fromkeys(("project_root_markers", "projects", "shell_environment_policy", "permissions"), ""),
    "default_permissions": "agent.permission_mode",
    "developer_instructions": "agent.system_prompt",
    "mcp_servers": "agent.mcp_servers",
    "model": "agent.model",
    "model_auto_compact_token_limit": "agent.context_window",
    "model_context_window": "agent.context_window",
    "model_reasoning_effort": "agent.effort",
    "sandbox_mode": "agent.permission_mode",
}
"""Settings that a task cannot give in `codex_config`, and the key that stands for each."""

_SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
PermissionMode = Literal["default", "acceptEdits", "plan", "bypassPermissions"]


def _blank_is_none(value: Any) -> Any:
    return None if isinstance(value, str) and not value.strip() else value


def _path_or_mapping(value: Any) -> Any:
    if value is None or isinstance(value, str | Mapping):
        return value
    raise problem("expected a path or a mapping")


def _holds_null(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_holds_null, value.values()))
    return any(map(_holds_null, value)) if isinstance(value, list | tuple) else value is None


class Plugin(WholeModel):
    """A directory with skills, commands, agents and hooks."""

    type: Literal["local"] = "local"
    path: HostPath


class McpServer(WholeModel):
    """A server of tools: a program that is started, by `command`, or one that is reached, by `type` and `url`."""

    type: Literal["stdio", "http", "sse"] | None = None
    command: Command | None = None
    args: tuple[OutputText, ...] = ()
    env: dict[str, OutputText] = Field(default_factory=dict)
    url: NonBlank | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        raise_findings("McpServer", self._findings(), self.__dict__)
        return self

    def _findings(self) -> list[Finding]:
        if (self.command is None) == (self.url is None):
            return [Finding((), "a server has either command or url")]
        if self.command is not None:
            foreign = [name for name in ("headers",) if self.given(name)]
            if self.type not in (None, "stdio"):
                return [Finding(("type",), f"a server with a command is of type stdio, not {self.type}")]
        else:
            foreign = [name for name in ("args", "env") if self.given(name)]
            if self.type not in ("http", "sse"):
                return [Finding(("type",), "a server with a url needs type: http or sse")]
        wanted = "a url" if self.command is not None else "a command"
        return [Finding((name,), f"{name} belongs to a server with {wanted}") for name in foreign]


class AgentConfig(StrictModel):
    """What all agents have in common; also an agent whose type is chosen elsewhere."""

    merging = Merging(
        replace=(
            *("type", "model", "permission_mode", "allowed_tools", "disallowed_tools", "plugins"),
            *("system_prompt", "system_prompt_file", "context_window", "ignore_patterns"),
        ),
        deep={"mcp_servers": NAMED},
        exclusive=(("system_prompt", "system_prompt_file"),),
        aliases={"additional_ignore_patterns": "ignore_patterns"},
    )

    context_range: ClassVar[tuple[int, int | None] | None] = None
    """Smallest and largest `context_window`; None when the type cannot limit it."""

    takes_mcp_servers: ClassVar[bool] = False

    type: str | None = None
    model: NonBlank | None = None
    permission_mode: PermissionMode = "acceptEdits"
    allowed_tools: tuple[str, ...] | None = None
    disallowed_tools: tuple[str, ...] | None = None
    plugins: tuple[Plugin, ...] | None = None
    mcp_servers: dict[str, McpServer] | None = None
    system_prompt: Annotated[str | None, BeforeValidator(_blank_is_none)] = None
    system_prompt_file: HostPath | None = None
    context_window: PositiveInt | None = None
    ignore_patterns: IgnorePatterns = Field(
        default=(), validation_alias=AliasChoices("ignore_patterns", "additional_ignore_patterns")
    )

    @property
    def author_code(self) -> str | None:
        """Where code of the task's author stands that works in the agent, None when there is none."""
        return None

    @model_validator(mode="after")
    def _check(self) -> AgentConfig:
        raise_findings(type(self).__name__, self.findings(), self.__dict__)
        return self

    def findings(self) -> list[Finding]:
        """What is wrong with this block, beyond its single values."""
        found = []
        if self.system_prompt is not None and self.system_prompt_file is not None:
            found.append(Finding(("system_prompt_file",), "system_prompt and system_prompt_file exclude each other"))
        for name in self.mcp_servers or ():
            if not _SERVER_NAME.fullmatch(name):
                message = "expected letters, digits, - and _, since tools are called mcp__<server>__<tool>"
                found.append(Finding(("mcp_servers", name), message))
        if self.mcp_servers and self.type is not None and not self.takes_mcp_servers:
            found.append(Finding(("mcp_servers",), f"the agent {self.type} has no use for MCP servers"))
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

    merging = AgentConfig.merging.and_(
        Merging(
            replace=("effort", "system_prompt_mode", "setting_sources"),
            deep={"claude_settings": FREE, "sdk_options": FREE},
        )
    )

    context_range = (100_000, 1_000_000)
    takes_mcp_servers = True

    type: Literal["claude-code"] = "claude-code"
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None
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
        if self.effort is not None and "effort" in self.sdk_options:
            found.append(Finding(("effort",), "sdk_options.effort says the same; give one"))
        return found


class CodexAgent(AgentConfig):
    """Codex. `codex_config` are settings of its config.toml, by their dotted names."""

    merging = AgentConfig.merging.and_(Merging(replace=("effort",), deep={"codex_config": FREE}))

    context_range = (32_768, None)
    takes_mcp_servers = True

    type: Literal["codex"] = "codex"
    effort: Literal["minimal", "low", "medium", "high", "xhigh", "max", "ultra"] | None = None
    codex_config: dict[str, Any] = Field(default_factory=dict)

    def findings(self) -> list[Finding]:
        found = super().findings()
        for key, value in self.codex_config.items():
            first = key.partition(".")[0]
            if not key.strip() or not all(key.split(".")):
                found.append(Finding(("codex_config", key), "expected the dotted name of a setting"))
            elif first in OWNED_CODEX_SETTINGS:
                how = OWNED_CODEX_SETTINGS[first]
                found.append(Finding(("codex_config", key), f"set by {how}" if how else "set by the harness"))
            elif _holds_null(value):
                found.append(Finding(("codex_config", key), "expected a value; leave the key out to unset it"))
        return found


class AntigravityAgent(AgentConfig):
    """Antigravity."""

    merging = AgentConfig.merging.and_(Merging(replace=("thinking_level",)))

    type: Literal["antigravity"] = "antigravity"
    thinking_level: Literal["minimal", "low", "medium", "high"] = "medium"


class OpencodeAgent(AgentConfig):
    """OpenCode."""

    merging = AgentConfig.merging.and_(Merging(replace=("variant", "pure", "require_token_telemetry")))

    type: Literal["opencode"] = "opencode"
    variant: NonBlank | None = None
    pure: bool = True
    require_token_telemetry: bool = True


class PiAgent(AgentConfig):
    """Pi."""

    merging = AgentConfig.merging.and_(Merging(replace=("thinking_level",)))

    type: Literal["pi"] = "pi"
    thinking_level: Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"] = "medium"


class DelegateOptions(StrictModel):
    """The one option that may be set."""

    merging = Merging(replace=("effort",))

    effort: NonBlank | None = None


class DelegateAgent(AgentConfig):
    """Delegate."""

    merging = AgentConfig.merging.and_(
        Merging(
            replace=("project_id", "session_id", "enable_computer_use"), deep={"sdk_options": DelegateOptions.merging}
        )
    )

    type: Literal["delegate"] = "delegate"
    sdk_options: DelegateOptions = Field(default_factory=DelegateOptions)
    project_id: str | None = None
    session_id: str | None = None
    enable_computer_use: bool = False


class NoAgent(AgentConfig):
    """No agent: the criteria judge what was staged."""

    type: Literal["none"] = "none"


class ScriptAgent(AgentConfig):
    """Steps that are written in the task and run for real, without a model."""

    merging = AgentConfig.merging.and_(Merging(replace=("steps",)))

    type: Literal["script"] = "script"
    steps: tuple[ScriptStep, ...]


class ThinkingBudget(WholeModel):
    """Thinking with a limit, in tokens."""

    budget_tokens: Annotated[int, Field(ge=1024)]


_Thinking = Literal["adaptive", "disabled"] | ThinkingBudget | None


def _thinking(value: Any, info: ValidationInfo) -> Any:
    if value is None or value in ("adaptive", "disabled") or isinstance(value, ThinkingBudget):
        return value
    if isinstance(value, Mapping):
        return ThinkingBudget.model_validate(value, context=info.context)
    raise problem("expected adaptive, disabled or {budget_tokens: n}")


class AnthropicAgent(AgentConfig):
    """A plain tool loop over the Anthropic API. `max_tokens` is the limit of one reply."""

    merging = AgentConfig.merging.and_(Merging(replace=("max_tokens", "base_url", "thinking", "effort")))

    type: Literal["anthropic"] = "anthropic"
    max_tokens: PositiveInt | None = None
    base_url: NonBlank | None = None
    thinking: Annotated[_Thinking, PlainValidator(_thinking, json_schema_input_type=_Thinking)] = None
    effort: Literal["low", "medium", "high", "xhigh", "max"] | None = None

    def findings(self) -> list[Finding]:
        found = super().findings()
        budget = self.thinking.budget_tokens if isinstance(self.thinking, ThinkingBudget) else None
        if budget is not None and self.max_tokens is not None and budget >= self.max_tokens:
            found.append(Finding(("thinking",), "budget_tokens has to be less than max_tokens"))
        return found


class CommandAgent(AgentConfig):
    """Any program: its argv and environment, its files below HOME, and how it takes the prompt.

    All their texts may have `program_template.PLACEHOLDERS`. `api` is the one that its model has, reached through a
    gateway; `resume_command` is the argv for a further prompt; `skills_to` is the folder below HOME for its skills.
    `parser` makes events of each line that it prints: a built-in one, `file.py:function` or `module:function`.
    """

    merging = AgentConfig.merging.and_(
        Merging(
            replace=("command", "resume_command", "prompt_mode", "api", "skills_to", "parser"),
            deep={"env": FREE, "files": NAMED},
        )
    )

    type: Literal["command"] = "command"
    command: Annotated[tuple[Command, ...], AtLeastOne]
    resume_command: Annotated[tuple[Command, ...], AtLeastOne] | None = None
    prompt_mode: Literal["stdin", "argument", "file"] = "stdin"
    env: dict[str, OutputText] = Field(default_factory=dict)
    files: dict[str, str | dict[str, Any] | list[Any]] = Field(default_factory=dict)
    api: Literal["anthropic", "openai", "gemini", "none"] = "none"
    skills_to: NonBlank = ".agents/skills"
    parser: NonBlank | None = None

    @property
    def author_code(self) -> str | None:
        return self.parser if self.parser is not None and ":" in self.parser else None

    def findings(self) -> list[Finding]:
        from .program_rules import program_findings

        return [*super().findings(), *program_findings(self)]


class ReplayAgent(AgentConfig):
    """A recorded trial, told again: its shell commands and changes of files are carried out, unless `execute` is off.

    `record` is a trial's `record.json` or the folder that has it.
    """

    merging = AgentConfig.merging.and_(Merging(replace=("record", "execute")))

    type: Literal["replay"] = "replay"
    record: HostPath
    execute: bool = True


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
_added_models: dict[str, type[AgentConfig]] = {}
JUDGE_AGENTS = ("claude-code", "codex", "anthropic", "antigravity", "opencode", "pi", "delegate")


def merging_of_all() -> Merging:
    """What becomes of the keys of an `agent` block, whatever its type will be."""
    return AgentConfig.merging.and_(*(model.merging for model in AGENT_MODELS.values() if model.merging is not None))


def add_models(models: Mapping[str, type[AgentConfig]]) -> None:
    """Take these for the agents of plugins, in place of all that were added before."""
    _added_models.clear()
    _added_models.update(models)


def model_of(name: str) -> type[AgentConfig]:
    """The model of the agent's block, by its type. Raises KeyError."""
    return AGENT_MODELS.get(name) or _added_models[name]


def all_models() -> dict[str, type[AgentConfig]]:
    """The models of all agents by their types, those of plugins too."""
    return {**AGENT_MODELS, **_added_models}


def parse_agent(value: Any, info: ValidationInfo) -> AgentConfig:
    """Return the agent block by its type; without a type, what all agents have in common."""
    if isinstance(value, AgentConfig):
        return value
    if not isinstance(value, Mapping):
        raise problem("expected a mapping with the agent's type")
    kind = value.get("type")
    if kind is None:
        return AgentConfig.model_validate(value, context=info.context)
    known = all_models()
    if not isinstance(kind, str) or kind not in known:
        raise_findings("agent", [Finding(("type",), _unknown_agent(kind, known))], value)
    return known[kind].model_validate(value, context=info.context)


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
