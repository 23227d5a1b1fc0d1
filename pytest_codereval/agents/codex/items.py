"""What Codex did, as tool calls in the vocabulary of all agents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ...model_api.json_parts import mappings
from ...trajectory.model import ToolCall, ToolStatus
from .words import unwrapped

Item = Mapping[str, Any]
SILENT = frozenset({"agent_message", "reasoning", "error", "user_message", "context_compaction", "hook_prompt"})
"""Items that are no calls of tools."""

_OUTCOMES: Mapping[object, ToolStatus] = {"completed": "success", "failed": "error", "declined": "error"}


def outcome(status: object) -> ToolStatus:
    """How an item ended, by its status."""
    return _OUTCOMES.get(status, "unknown") if isinstance(status, str) else "unknown"


def tool_calls(item: Item, call_id: str, started: float, ended: float | None) -> Iterator[ToolCall]:
    """The calls that one item of the JSON lines tells of; `ended` is None while it is under way."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind in SILENT:
        return
    if kind == "collab_tool_call":
        yield from _collaboration(item, call_id, started, ended)
        return
    status: ToolStatus = "unknown" if ended is None else outcome(item.get("status"))
    if kind == "command_execution":
        yield shell_call(call_id, unwrapped(text(item.get("command"))), item, status, started, ended)
    elif kind == "file_change":
        for number, change in enumerate(mappings(item.get("changes"))):
            name, parameters = file_change(text(change.get("path")), change.get("kind"))
            yield ToolCall(f"{call_id}-{number}", name, parameters, status, started=started, ended=ended)
    elif kind == "mcp_tool_call":
        name = f"mcp__{text(item.get('server'))}__{text(item.get('tool'))}"
        said, failed = mcp_output(item)
        status = "error" if failed and ended is not None else status
        yield ToolCall(call_id, name, arguments(item.get("arguments")), status, said, None, started, ended)
    else:
        name, parameters = _other(kind, item)
        done: ToolStatus = "unknown" if ended is None else outcome(item.get("status", "completed"))
        yield ToolCall(call_id, name, parameters, done, started=started, ended=ended)


def shell_call(
    call_id: str,
    command: str,
    item: Item,
    status: ToolStatus,
    started: float,
    ended: float | None,
    parent_id: str | None = None,
) -> ToolCall:
    """A command in a shell; a negative exit status, of a command that was killed with Codex, is not known."""
    code = item.get("exit_code")
    known = code if isinstance(code, int) and not isinstance(code, bool) and code >= 0 else None
    if ended is not None and status == "success" and known not in (0, None):
        status = "error"
    output = text(item.get("aggregated_output"))
    return ToolCall(call_id, "Bash", {"command": command}, status, output, known, started, ended, parent_id=parent_id)


def file_change(path: str, kind: object) -> tuple[str, dict[str, object]]:
    """Name and parameters of the call that one changed file stands for."""
    parameters: dict[str, object] = {"file_path": path}
    if kind == "delete":
        parameters["kind"] = "delete"
    return "Write" if kind == "add" else "Edit", parameters


def mcp_output(item: Item) -> tuple[str, bool]:
    """What the tool of an MCP server said, and whether that is an error."""
    error = item.get("error")
    if error:
        return text(error.get("message") if isinstance(error, Mapping) else error), True
    result = item.get("result")
    if not isinstance(result, Mapping):
        return "", False
    blocks = mappings(result.get("content"))
    said = "\n".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
    return said, bool(result.get("is_error") or result.get("isError"))


def arguments(value: object) -> dict[str, object]:
    """Parameters of a call, whatever the model gave for them."""
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    return {} if value is None else {"arguments": value}


def text(value: object) -> str:
    """A text as it is, everything else as JSON unless it is nested too deeply for that."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    try:
        return json.dumps(value)
    except RecursionError:
        return ""


def _other(kind: str, item: Item) -> tuple[str, dict[str, object]]:
    if kind == "web_search":
        return "WebSearch", {"query": text(item.get("query"))}
    if kind == "todo_list":
        steps = mappings(item.get("items"))
        todos = [
            {"content": text(step.get("text")), "status": "completed" if step.get("completed") else "pending"}
            for step in steps
        ]
        return "TodoWrite", {"todos": todos}
    return kind, {str(key): value for key, value in item.items() if key not in ("id", "type", "status")}


def _collaboration(item: Item, call_id: str, started: float, ended: float | None) -> Iterator[ToolCall]:
    """A sub-agent is a call of `Agent` with the id of its thread; how it ended is told when its record is read."""
    tool = text(item.get("tool"))
    failed = item.get("status") == "failed"
    status: ToolStatus = "unknown" if ended is None else ("error" if failed else "success")
    threads = item.get("receiver_thread_ids")
    receivers = [text(thread) for thread in threads] if isinstance(threads, list) else []
    prompt = {"prompt": text(item.get("prompt"))} if item.get("prompt") is not None else {}
    if tool == "spawn_agent":
        if failed:
            yield ToolCall(call_id, "Agent", prompt, "error", started=started, ended=ended)
        for thread in receivers if ended is not None and not failed else ():
            yield ToolCall(thread, "Agent", prompt, "unknown", started=started)
    else:
        yield ToolCall(call_id, tool, {**prompt, "agents": receivers}, status, started=started, ended=ended)
