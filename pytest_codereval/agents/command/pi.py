"""What `pi --mode json` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ... import clock
from ...errors import Cause
from ...model_api.faults import fault_of_response
from ...model_api.json_parts import mapping, mappings, parsed, text
from ...trajectory.model import Event, Message, ModelCall, ToolCall
from .reading import JsonReader
from .told import Words, count, seconds, usage

_PATH = MappingProxyType({"path": "file_path"})
_EDIT = MappingProxyType({"path": "file_path", "oldText": "old_string", "newText": "new_string"})
WORDS = Words(
    {
        "bash": ("Bash", {}),
        "read": ("Read", _PATH),
        "write": ("Write", _PATH),
        "edit": ("Edit", _EDIT),
        "grep": ("Grep", {}),
        "find": ("Glob", {}),
        "ls": ("LS", {}),
    }
)

_EXIT = re.compile(r"Command exited with code (\d{1,3})\s*\Z")
_STATUS = re.compile(r"(?P<status>[45]\d\d)\b\s*(?P<body>\{.*\})?", re.DOTALL)


class Reader(JsonReader):
    """Reads its `session`, `tool_execution_*`, `message_end` and `agent_end` events."""

    program = "pi"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._open: dict[str, ToolCall] = {}

    def events(self, told: Mapping[str, Any]) -> Iterable[Event]:
        match told.get("type"):
            case "session":
                self.session = text(told.get("id")) or None
            case "tool_execution_start":
                yield self._begun(told)
            case "tool_execution_end":
                yield self._ended(told)
            case "message_end":
                yield from self._message(mapping(told.get("message")))
            case "agent_end":
                self.completed = True
            case "agent_start":
                self.completed = False

    def _begun(self, told: Mapping[str, Any]) -> ToolCall:
        raw = text(told.get("toolCallId"))
        name, parameters = WORDS.said(text(told.get("toolName")), mapping(told.get("args")))
        _flatten(parameters)
        call = ToolCall(self.ids.begun(raw), name, parameters, "unknown", started=clock.now())
        self._open[raw] = call
        return call

    def _ended(self, told: Mapping[str, Any]) -> ToolCall:
        raw = text(told.get("toolCallId"))
        begun = self._open.pop(raw, None)
        name, parameters = WORDS.said(text(told.get("toolName")), mapping(told.get("args")))
        if begun is not None:
            name, parameters = begun.name, dict(begun.parameters)
        content = mapping(told.get("result")).get("content")
        output = _texts(content)
        failed = told.get("isError") is True
        status: int | None = None
        if name == "Bash":
            found = _EXIT.search(output) if failed else None
            status = int(found[1]) if found else None if failed else 0
        now = clock.now()
        started = begun.started if begun else now
        return ToolCall(
            self.ids.ended(raw), name, parameters, "error" if failed else "success", output, status, started, now
        )

    def _message(self, message: Mapping[str, Any]) -> Iterable[Event]:
        if message.get("role") != "assistant":
            return
        now = clock.now()
        if said := _texts(message.get("content")):
            yield Message("assistant", said, now)
        reason = message.get("stopReason")
        used = mapping(message.get("usage"))
        cost = mapping(used.get("cost")).get("total")
        buckets = usage(used.get("input"), used.get("cacheWrite"), used.get("cacheRead"), used.get("output"), cost)
        began = seconds(message.get("timestamp"), now)
        identity = text(message.get("responseId")) or f"pi-{began}"
        if reason not in ("error", "aborted") or count(used.get("output")):
            complete = reason not in ("error", "aborted")
            yield ModelCall(identity, text(message.get("model")) or None, buckets, complete, began, now)
        self._judge(reason, text(message.get("errorMessage")))

    def _judge(self, reason: object, message: str) -> None:
        if reason == "length":
            self.failed(Cause.OUTPUT_CUT, "the model's reply was cut at its longest")
        elif reason in ("error", "aborted"):
            found = _STATUS.match(message)
            if found is None:
                self.failed(Cause.API_FAULT, message)
                return
            cause, said, wait = fault_of_response(int(found["status"]), {}, parsed(found["body"]))
            self.failed(cause, said, wait)
        else:
            self.failure = None


def _texts(content: object) -> str:
    return "\n".join(text(part.get("text")) for part in mappings(content) if part.get("type") == "text")


def _flatten(parameters: dict[str, Any]) -> None:
    """One replacement stands as in any other Edit; several stay a list, in the same words."""
    edits = parameters.get("edits")
    if not isinstance(edits, list) or not all(isinstance(edit, dict) for edit in edits):
        return
    said = [{_EDIT.get(key, key): value for key, value in edit.items()} for edit in edits]
    if len(said) == 1:
        del parameters["edits"]
        parameters |= said[0]
    else:
        parameters["edits"] = said
