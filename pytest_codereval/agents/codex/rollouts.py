"""The records that Codex keeps of its threads: they alone tell what sub-agents did and what was written into files."""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from ...model_api.json_parts import mappings, parsed
from ...sandbox.opening import BENEATH, NO_LINKS, open_at
from ...trajectory.model import ToolCall, ToolStatus
from .items import arguments, file_change, mcp_output, outcome, shell_call, text
from .words import inner

MOST_BYTES = 256_000_000
"""Of all records together."""

MOST_FILES = 1000

_LATEST = 1e14
"""No time is later, in seconds or milliseconds since the epoch."""

_RECORD = re.compile(r"rollout-.*\.jsonl", re.DOTALL)
_DEPTH = 3
"""Folders of year, month and day."""


@dataclasses.dataclass
class Thread:
    """One thread and what it did. `parent` is the thread that started it, None for the main thread.

    `patches` hold for each change of files what the calls of `Write` and `Edit` were given, by path.
    """

    id: str
    parent: str | None
    started: float = 0.0
    ended: float | None = None
    prompt: str = ""
    answer: str = ""
    failed: bool = False
    calls: list[ToolCall] = dataclasses.field(default_factory=list)
    patches: list[dict[str, dict[str, object]]] = dataclasses.field(default_factory=list)

    def told(self, main: str | None) -> Iterator[ToolCall]:
        """A sub-agent's own call, under that of the sub-agent which started it if there is one; then its work."""
        parent = None if self.parent == main else self.parent
        status: ToolStatus = "unknown" if self.ended is None else ("error" if self.failed else "success")
        prompt: dict[str, object] = {"prompt": self.prompt} if self.prompt else {}
        yield ToolCall(self.id, "Agent", prompt, status, self.answer, None, self.started, self.ended, parent_id=parent)
        yield from self.calls


def read_threads(codex_home: Path) -> list[Thread]:
    """The threads of all records below `codex_home`, which the agent could write to; links are not followed."""
    threads = []
    left = MOST_BYTES
    for number, name in enumerate(_record_names(codex_home)):
        if number >= MOST_FILES or left <= 0:
            break
        data = _content(codex_home, f"sessions/{name}", left)
        left -= len(data)
        if (thread := _thread(data)) is not None:
            threads.append(thread)
    return sorted(threads, key=lambda thread: thread.started)


def with_contents(calls: Iterable[ToolCall], patches: Iterable[Mapping[str, dict[str, object]]]) -> Iterator[ToolCall]:
    """The calls of `Write` and `Edit` with what was written, as far as the main thread's record tells, in its order."""
    by_item: dict[str, dict[str, ToolCall]] = {}
    for call in calls:
        by_item.setdefault(call.id.rpartition("-")[0], {})[text(call.parameters.get("file_path"))] = call
    waiting = list(by_item.values())
    for patch in patches:
        found = next((item for item in waiting if item.keys() == patch.keys()), None)
        if found is None:
            continue
        waiting = waiting[waiting.index(found) + 1 :]
        for path, parameters in patch.items():
            yield dataclasses.replace(found[path], parameters=parameters)


def _record_names(codex_home: Path) -> Iterator[str]:
    folder = codex_home / "sessions"
    if codex_home.is_symlink() or folder.is_symlink():
        return
    for place, folders, files in os.walk(folder):
        below = Path(place).relative_to(folder)
        folders[:] = sorted(folders) if len(below.parts) < _DEPTH else []
        yield from (str(below / name) for name in sorted(files) if _RECORD.fullmatch(name))


def _content(folder: Path, name: str, limit: int) -> bytes:
    try:
        parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        handle = open_at(parent, name, os.O_RDONLY | os.O_NONBLOCK, BENEATH | NO_LINKS)
    except OSError:
        return b""
    finally:
        os.close(parent)
    with open(handle, "rb") as file:
        return file.read(limit) if stat.S_ISREG(os.fstat(handle).st_mode) else b""


def _thread(data: bytes) -> Thread | None:
    """What one record tells, None when it does not say whose it is in its first line."""
    thread: Thread | None = None
    for line in data.splitlines():
        told = parsed(line)
        payload = told.get("payload")
        if not isinstance(payload, dict):
            continue
        if thread is None:
            thread = _beginning(told, payload)
            if thread is None:
                return None
        elif told.get("type") == "event_msg":
            _take(thread, payload)
        elif payload.get("type") == "agent_message" and not thread.prompt:
            thread.prompt = _sent(payload)
    return thread


def _beginning(told: Mapping[str, Any], payload: Mapping[str, Any]) -> Thread | None:
    own, parent = payload.get("id"), payload.get("parent_thread_id")
    if told.get("type") != "session_meta" or not isinstance(own, str) or not own:
        return None
    return Thread(own, parent if isinstance(parent, str) and parent else None, _seconds(told.get("timestamp")))


def _take(thread: Thread, payload: Mapping[str, Any]) -> None:
    """One event. A thread that was forked from its parent holds that one's history too, which is left out."""
    kind = payload.get("type")
    item = payload.get("item")
    if kind == "item_completed" and payload.get("thread_id") == thread.id and isinstance(item, dict):
        if item.get("type") == "UserMessage" and not thread.prompt:
            thread.prompt = _sent(item)
        if item.get("type") == "FileChange" and isinstance(changes := item.get("changes"), dict):
            thread.patches.append({path: _written(path, change) for path, change in changes.items()})
        thread.calls += _calls(item, thread.id, *(_milliseconds(payload, key) for key in ("started", "completed")))
    elif kind == "task_complete":
        thread.answer, thread.failed = text(payload.get("last_agent_message")), False
        ended = payload.get("completed_at")
        thread.ended = float(ended) if _is_time(ended) else thread.started
    elif kind in ("turn_aborted", "error") and thread.prompt:
        thread.failed = True


def _calls(item: Mapping[str, Any], parent: str, started: float, ended: float) -> Iterator[ToolCall]:
    kind, call_id = item.get("type"), f"{parent}-{text(item.get('id'))}"
    status = outcome(item.get("status"))
    if kind == "CommandExecution":
        words = item.get("command")
        words = [text(word) for word in words] if isinstance(words, list) else [text(words)]
        command = inner(words) or " ".join(words)
        yield shell_call(call_id, command, item, status, started, ended, parent)
    elif kind == "FileChange" and isinstance(changes := item.get("changes"), dict):
        for number, (path, change) in enumerate(changes.items()):
            done = change.get("type") if isinstance(change, dict) else None
            name, _ = file_change(path, done)
            written = _written(path, change)
            yield ToolCall(f"{call_id}-{number}", name, written, status, "", None, started, ended, parent_id=parent)
    elif kind == "McpToolCall":
        said, failed = mcp_output(item)
        name = f"mcp__{text(item.get('server'))}__{text(item.get('tool'))}"
        given = arguments(item.get("arguments"))
        yield ToolCall(
            call_id, name, given, "error" if failed else status, said, None, started, ended, parent_id=parent
        )
    elif kind == "WebSearch":
        query: dict[str, object] = {"query": text(item.get("query"))}
        yield ToolCall(call_id, "WebSearch", query, "success", "", None, started, ended, parent_id=parent)


def _written(path: str, change: object) -> dict[str, object]:
    """The parameters of `Write` or `Edit` for one file of a patch, where several hunks are joined."""
    if not isinstance(change, dict):
        return {"file_path": path}
    _, parameters = file_change(path, change.get("type"))
    if change.get("type") == "add":
        parameters["content"] = text(change.get("content"))
    elif change.get("type") == "update":
        lines = [line for line in text(change.get("unified_diff")).splitlines(keepends=True) if line[:2] != "@@"]
        parameters["old_string"] = "".join(line[1:] for line in lines if line[0] in " -")
        parameters["new_string"] = "".join(line[1:] for line in lines if line[0] in " +")
    return parameters


def _sent(message: Mapping[str, Any]) -> str:
    """What a sub-agent was told, without the head that Codex puts before it; encrypted where its API does that."""
    texts = (part.get("text") or part.get("encrypted_content") for part in mappings(message.get("content")))
    whole = "".join(part for part in texts if isinstance(part, str))
    return whole.partition("\nPayload:\n")[2] or whole


def _seconds(timestamp: object) -> float:
    try:
        return max(datetime.datetime.fromisoformat(text(timestamp)).timestamp(), 0.0)
    except (ValueError, OverflowError):
        return 0.0


def _milliseconds(payload: Mapping[str, Any], key: str) -> float:
    value = payload.get(f"{key}_at_ms")
    return value / 1000 if _is_time(value) else 0.0


def _is_time(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be a time: the agent may have written it."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LATEST
