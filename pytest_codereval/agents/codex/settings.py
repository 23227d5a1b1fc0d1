"""What Codex is told about its work: its config.toml, and what of the task it has no setting for."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import AgentError, Cause
from ..protocol import Job
from .toml import document

if TYPE_CHECKING:
    from ...task.agent_models import AgentConfig, McpServer

PROVIDER = "codereval"
TOKEN_VARIABLE = "CODEREVAL_MODEL_TOKEN"
STREAM_RETRIES = 2
"""How often Codex itself asks again after a failed call; the rest is left to the trial."""

MCP_START = 60
"""Seconds that an MCP server may take to start."""

_OFF: Mapping[str, Mapping[str, object]] = {
    "Bash": {"features.shell_tool": False},
    "WebSearch": {"web_search": "disabled"},
    "Agent": {"agents.enabled": False},
    "Task": {"agents.enabled": False},
}
"""The settings that take a tool away."""


@dataclasses.dataclass
class Tools:
    """What becomes of allowed_tools and disallowed_tools. `mcp` holds the tools that are taken from each MCP server."""

    settings: dict[str, object] = dataclasses.field(default_factory=dict)
    mcp: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    not_enforced: dict[str, list[str]] = dataclasses.field(default_factory=dict)


def config_toml(job: Job, url: str) -> str:
    """The text of config.toml; `url` is where the model is reached. Raises AgentError(CONFIGURATION)."""
    config = job.config
    tools = tool_lists(config)
    settings: dict[str, Any] = {
        "model_provider": PROVIDER,
        "model_providers": {
            PROVIDER: {
                "name": PROVIDER,
                "base_url": f"{url}/v1",
                "env_key": TOKEN_VARIABLE,
                "wire_api": "responses",
                "request_max_retries": 0,
                "stream_max_retries": STREAM_RETRIES,
            }
        },
        "approval_policy": "never",
        "sandbox_mode": "read-only" if config.permission_mode == "plan" else "danger-full-access",
        "project_root_markers": [],
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "features": {"plugins": False, "unbounded_connection_retries": False},
    }
    for layer in (getattr(config, "codex_config", {}), _chosen(job), tools.settings):
        for key, value in layer.items():
            _lay(settings, key.split("."), value)
    if servers := _mcp_servers(config.mcp_servers or {}, tools.mcp):
        settings["mcp_servers"] = servers
    try:
        return document(settings)
    except ValueError as error:
        raise AgentError(Cause.CONFIGURATION, f"agent.codex_config: {error}") from None


def _chosen(job: Job) -> dict[str, object]:
    """The settings that the task's own keys stand for."""
    config = job.config
    chosen: dict[str, object] = {}
    if model := job.model or config.model:
        chosen["model"] = model
    if effort := getattr(config, "effort", None):
        chosen["model_reasoning_effort"] = effort
    if config.system_prompt is not None:
        chosen["developer_instructions"] = config.system_prompt
    if config.context_window is not None:
        chosen["model_context_window"] = config.context_window
        chosen["model_auto_compact_token_limit"] = config.context_window * 9 // 10
    return chosen


def _lay(settings: dict[str, Any], keys: list[str], value: object) -> None:
    """Set a value by its path, keeping what stands beside it."""
    *above, last = keys
    for key in above:
        below = settings.get(key)
        settings[key] = settings = dict(below) if isinstance(below, Mapping) else {}
    if isinstance(value, Mapping) and isinstance(settings.get(last), Mapping):
        for key, item in value.items():
            settings[last] = dict(settings[last])
            _lay(settings[last], [str(key)], item)
    else:
        settings[last] = value


def tool_lists(config: AgentConfig) -> Tools:
    """What Codex can keep of the two lists: it has switches for a few tools and none for a list."""
    tools = Tools()
    for name in config.disallowed_tools or ():
        if not _take_away(tools, name):
            tools.not_enforced.setdefault("disallowed_tools", []).append(name)
    if config.allowed_tools is not None:
        if not any(_bare(name) in ("WebSearch", "WebFetch") for name in config.allowed_tools):
            tools.settings |= _OFF["WebSearch"]
        tools.not_enforced["allowed_tools"] = list(config.allowed_tools)
    return tools


def _take_away(tools: Tools, name: str) -> bool:
    if name in _OFF:
        tools.settings |= _OFF[name]
        return True
    if (found := re.fullmatch(r"mcp__([A-Za-z0-9_-]+?)__([A-Za-z0-9_-]+)", name)) is not None:
        tools.mcp.setdefault(found[1], []).append(found[2])
        return True
    return name == "WebFetch"


def _bare(name: str) -> str:
    return name.partition("(")[0].strip()


def _mcp_servers(servers: Mapping[str, McpServer], without: Mapping[str, Iterable[str]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, server in servers.items():
        if server.type == "sse":
            raise AgentError(
                Cause.CONFIGURATION, f"agent.mcp_servers.{name}: codex has no servers of type sse, only stdio and http"
            )
        entry: dict[str, object] = {"required": True, "startup_timeout_sec": MCP_START}
        if server.url is not None:
            entry["url"] = server.url
            if server.headers:
                entry["http_headers"] = server.headers
        else:
            entry |= {"command": server.command, "args": server.args, "env": server.env}
        if without.get(name):
            entry["disabled_tools"] = list(without[name])
        found[name] = entry
    return found
