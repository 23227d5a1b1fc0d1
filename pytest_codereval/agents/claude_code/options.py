"""The program's arguments and files, from the agent's block."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import AgentError, Cause
from ...sandbox.host_path import host_path
from .surroundings import foreign_memory, harness_file, without_ours

if TYPE_CHECKING:
    from ...task.agent_models import ClaudeCodeAgent, McpServer
    from ..protocol import Job

_BETA = "context-1m-2025-08-07"
_FIXED = ("-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config")


def mistake(message: str) -> AgentError:
    return AgentError(Cause.CONFIGURATION, f"agent claude-code: {message}")


def arguments(job: Job, config: ClaudeCodeAgent) -> list[str]:
    """All arguments but the program and the session. Writes the files that they name into HOME.

    Raises AgentError(CONFIGURATION), and OSError when HOME cannot be written.
    """
    found = [*_FIXED, f"--setting-sources={','.join(sources(config))}", "--permission-mode", config.permission_mode]
    if job.model is not None:
        found += ["--model", job.model]
    if job.max_turns is not None:
        found += ["--max-turns", str(job.max_turns)]
    if config.context_window is not None:
        found += ["--autocompact", str(config.context_window)]
    if config.effort is not None:
        found += ["--effort", config.effort]
    found += _system_prompt(job, config)
    found += _tools(config)
    found += _mcp_servers(job, config)
    for plugin in job.skills.plugins:
        found += ["--plugin-dir", str(plugin.folder)]
    return [*found, *sdk_arguments(config.sdk_options)]


def sources(config: ClaudeCodeAgent) -> tuple[str, ...]:
    """The kinds of settings files that the program reads."""
    return ("project",) if config.setting_sources is None else config.setting_sources


def _system_prompt(job: Job, config: ClaudeCodeAgent) -> Iterator[str]:
    text = config.system_prompt
    if text:
        replace = config.system_prompt_mode == "replace"
        yield "--system-prompt-file" if replace else "--append-system-prompt-file"
        yield str(harness_file(job.sandbox, "system-prompt.txt", text.encode("utf-8", "replace")))
    elif config.system_prompt_mode == "replace":
        raise mistake("system_prompt_mode: replace needs a system prompt, and it is blank")


def _tools(config: ClaudeCodeAgent) -> Iterator[str]:
    for option, key in (("--allowedTools", "allowed_tools"), ("--disallowedTools", "disallowed_tools")):
        names = getattr(config, key) or ()
        for name in names:
            if not name.strip() or name.startswith("-"):
                raise mistake(f"{key}: {name!r} names no tool")
        if names:
            yield option
            yield ",".join(names)


def _mcp_servers(job: Job, config: ClaudeCodeAgent) -> Iterator[str]:
    if config.mcp_servers:
        servers = {name: _mcp_server(server) for name, server in config.mcp_servers.items()}
        yield "--mcp-config"
        yield str(harness_file(job.sandbox, "mcp.json", json.dumps({"mcpServers": servers}).encode()))


def _mcp_server(server: McpServer) -> dict[str, object]:
    if server.command is not None:
        return {"command": server.command, "args": list(server.args), "env": dict(server.env)}
    return {"type": server.type, "url": server.url, "headers": dict(server.headers)}


def settings(job: Job, config: ClaudeCodeAgent) -> dict[str, Any]:
    """The author's settings. Raises AgentError(CONFIGURATION) when they cannot be read or would go past the gateway."""
    given = config.claude_settings
    key = "claude_settings"
    if isinstance(given, str):
        path = host_path(given, job.task_folder, f"agent.{key}")
        try:
            given = json.loads(_read(path, key))
        except (ValueError, RecursionError) as error:
            raise mistake(f"{key}: {path} is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise mistake(f"{key}: {path}: expected a mapping")
    found: dict[str, Any] = dict(given or {})
    if "apiKeyHelper" in found:
        raise mistake(f"{key}.apiKeyHelper: the key is added outside the sandbox; set it where pytest runs")
    variables = found.setdefault("env", {})
    if not isinstance(variables, dict):
        raise mistake(f"{key}.env: expected a mapping")
    without_ours(variables, f"agent claude-code: {key}.env")
    if not isinstance(found.get("claudeMdExcludes", []), list):
        raise mistake(f"{key}.claudeMdExcludes: expected a list")
    return found


def settings_file(job: Job, given: Mapping[str, Any], url: str, token: str) -> Path:
    """Write the settings that go before those of the workspace: the author's, and the way to the gateway.

    The token stands nowhere else: settings that the program finds invalid it drops as a whole and without a word, and
    then it has no key and says so. Raises OSError.
    """
    excluded = [*given.get("claudeMdExcludes", ()), *foreign_memory(job.sandbox.workspace)]
    variables = {**given["env"], "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": token}
    whole = {**given, "claudeMdExcludes": excluded, "env": variables}
    return harness_file(job.sandbox, "settings.json", json.dumps(whole, default=str).encode())


def _read(path: Path, key: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise mistake(f"{key}: {path} cannot be read: {error}") from None


def sdk_arguments(options: Mapping[str, Any]) -> list[str]:
    """Arguments for options of the Claude Agent SDK. Raises AgentError(CONFIGURATION) for one that has none."""
    found: list[str] = []
    for name, value in options.items():
        make = _SDK_OPTIONS.get(name)
        if make is None:
            known = ", ".join(sorted(_SDK_OPTIONS))
            raise mistake(f"sdk_options.{name}: the program has no argument for it (it has for {known})")
        if value is None:
            continue
        made = make(value)
        if made is None:
            raise mistake(f"sdk_options.{name}: {value!r} is not what it can be")
        found += made
    return found


def _flag(option: str) -> Callable[[Any], list[str] | None]:
    return lambda value: ([option] if value else []) if isinstance(value, bool) else None


def _number(option: str) -> Callable[[Any], list[str] | None]:
    return lambda value: [option, str(value)] if type(value) is int and value >= 0 else None


def _betas(value: Any) -> list[str] | None:
    """The program drops all other betas with a warning; the variable ANTHROPIC_BETAS has no such limit."""
    fits = isinstance(value, list) and all(one == _BETA for one in value)
    return ["--betas", _BETA] if fits and value else ([] if fits else None)


def _effort(value: Any) -> list[str] | None:
    return ["--effort", value] if value in ("low", "medium", "high", "xhigh", "max") else None


def _thinking(value: Any) -> list[str] | None:
    if not isinstance(value, dict) or not value.keys() <= {"type", "budget_tokens", "display"}:
        return None
    kind, display = value.get("type"), value.get("display")
    if kind in ("adaptive", "disabled") and "budget_tokens" not in value:
        found: list[str] | None = ["--thinking", kind]
    else:
        found = _number("--max-thinking-tokens")(value.get("budget_tokens")) if kind == "enabled" else None
    if found is None or display is None:
        return found
    return [*found, "--thinking-display", display] if display in ("summarized", "omitted") else None


def _task_budget(value: Any) -> list[str] | None:
    fits = isinstance(value, dict) and value.keys() == {"total"}
    return _number("--task-budget")(value["total"]) if fits else None


_SDK_OPTIONS: Mapping[str, Callable[[Any], list[str] | None]] = MappingProxyType(
    {
        "betas": _betas,
        "effort": _effort,
        "forward_subagent_text": _flag("--forward-subagent-text"),
        "include_hook_events": _flag("--include-hook-events"),
        "max_thinking_tokens": _number("--max-thinking-tokens"),
        "strict_mcp_config": lambda value: [] if value is True else None,
        "task_budget": _task_budget,
        "thinking": _thinking,
    }
)
