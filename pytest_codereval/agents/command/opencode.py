"""What `opencode run --format json` prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ... import clock
from ...errors import Cause
from ...model_api.faults import fault_of_response
from ...model_api.json_parts import mapping, text
from ...trajectory.model import Event, Message, ModelCall, ToolCall, ToolStatus
from .reading import JsonReader
from .told import Words, count, seconds, usage

_FILE = MappingProxyType({"filePath": "file_path"})
_EDIT = MappingProxyType(
    {"filePath": "file_path", "oldString": "old_string", "newString": "new_string", "replaceAll": "replace_all"}
)
WORDS = Words(
    {
        "bash": ("Bash", {}),
        "read": ("Read", _FILE),
        "write": ("Write", _FILE),
        "edit": ("Edit", _EDIT),
        "glob": ("Glob", {}),
        "grep": ("Grep", {}),
        "list": ("LS", {}),
        "skill": ("Skill", {"name": "skill"}),
        "task": ("Agent", {}),
        "todowrite": ("TodoWrite", {}),
        "webfetch": ("WebFetch", {}),
        "websearch": ("WebSearch", {}),
    }
)

_ENDS = MappingProxyType({"length": Cause.OUTPUT_CUT, "content-filter": Cause.REFUSED})


class Reader(JsonReader):
    """Reads its `tool_use`, `text`, `step_start`, `step_finish` and `error` events."""

    program = "opencode"

    def events(self, told: Mapping[str, Any]) -> Iterable[Event]:
        self.session = text(told.get("sessionID")) or self.session
        part = mapping(told.get("part"))
        match told.get("type"):
            case "step_start":
                self.completed = False
            case "tool_use":
                yield self._tool(part)
            case "text":
                if said := text(part.get("text")):
                    yield Message("assistant", said, clock.now())
            case "step_finish":
                yield self._step(part)
            case "error":
                self._error(mapping(told.get("error")))

    def _tool(self, part: Mapping[str, Any]) -> ToolCall:
        """A call is told once, at its end."""
        state = mapping(part.get("state"))
        name, parameters = WORDS.said(text(part.get("tool")), mapping(state.get("input")))
        status: ToolStatus = "success" if state.get("status") == "completed" else "error"
        exit_status = None
        if name == "Bash" and status == "success":
            exit_status = count(mapping(state.get("metadata")).get("exit"))
            status = "success" if exit_status == 0 else "error"
        times = mapping(state.get("time"))
        now = clock.now()
        return ToolCall(
            self.ids.ended(text(part.get("callID"))),
            name,
            parameters,
            status,
            text(state.get("output")) or text(state.get("error")),
            exit_status,
            seconds(times.get("start"), now),
            seconds(times.get("end"), now),
        )

    def _step(self, part: Mapping[str, Any]) -> ModelCall:
        """A reply has the id of its part, for a message may have several."""
        reason = text(part.get("reason"))
        self.completed = reason == "stop"
        if reason in _ENDS:
            self.failed(_ENDS[reason], f"the model's reply ended with {reason}")
        elif reason not in ("stop", "tool-calls"):
            self.failed(Cause.API_FAULT, f"the model's reply ended with {reason or 'no reason'}")
        else:
            self.failure = None
        tokens = mapping(part.get("tokens"))
        cache = mapping(tokens.get("cache"))
        said, thought = count(tokens.get("output")), count(tokens.get("reasoning"))
        output = None if said is None else said + (thought or 0)
        used = usage(tokens.get("input"), cache.get("write"), cache.get("read"), output, part.get("cost"))
        now = clock.now()
        complete = reason in ("stop", "tool-calls", *_ENDS)
        identity = text(part.get("id")) or f"opencode-{now}"
        return ModelCall(identity, None, used, complete, now, now)

    def _error(self, error: Mapping[str, Any]) -> None:
        data = mapping(error.get("data"))
        message = text(data.get("message")) or text(error.get("name"))
        status = count(data.get("statusCode"))
        if status is not None:
            headers = {key: text(value) for key, value in mapping(data.get("responseHeaders")).items()}
            body = text(data.get("responseBody")).encode("utf-8", "replace")
            cause, said, wait = fault_of_response(status, headers, body)
            self.failed(cause, said or message, wait)
        elif error.get("name") == "ContentFilterError":
            self.failed(Cause.REFUSED, message)
        else:
            self.failed(Cause.API_FAULT, message)
