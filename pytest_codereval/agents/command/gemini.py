"""What `gemini --output-format stream-json` prints."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ... import clock
from ...errors import Cause
from ...model_api.faults import fault_of_response
from ...model_api.json_parts import mapping, parsed, text
from ...trajectory.model import Event, Message, ModelCall, ToolCall, ToolStatus
from .reading import JsonReader
from .told import Words, count, usage

_FILE = MappingProxyType({"absolute_path": "file_path"})
WORDS = Words(
    {
        "run_shell_command": ("Bash", {}),
        "read_file": ("Read", _FILE),
        "write_file": ("Write", _FILE),
        "replace": ("Edit", _FILE),
        "glob": ("Glob", {}),
        "grep_search": ("Grep", {}),
        "search_file_content": ("Grep", {}),
        "list_directory": ("LS", {"dir_path": "path"}),
        "activate_skill": ("Skill", {"name": "skill"}),
        "invoke_agent": ("Agent", {}),
        "write_todos": ("TodoWrite", {}),
        "web_fetch": ("WebFetch", {}),
        "google_web_search": ("WebSearch", {}),
    }
)

_API_ERROR = re.compile(r"API Error: (\{.*\})", re.DOTALL)


class Reader(JsonReader):
    """Reads its `init`, `message`, `tool_use`, `tool_result`, `error` and `result` events.

    It does not tell the exit status of a shell command, whose success is therefore unknown unless it failed to start.
    """

    program = "gemini"

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._open: dict[str, ToolCall] = {}
        self._said: list[str] = []

    def events(self, told: Mapping[str, Any]) -> Iterable[Event]:
        kind = told.get("type")
        if kind == "message" and told.get("role") == "assistant":
            self._said.append(text(told.get("content")))
            if told.get("delta") is True:
                return
        yield from self.rest()
        match kind:
            case "init":
                self.session = text(told.get("session_id")) or None
            case "tool_use":
                yield self._begun(told)
            case "tool_result":
                yield self._ended(told)
            case "result":
                yield from self._result(told)

    def rest(self) -> Iterable[Event]:
        """The text that came in pieces."""
        said, self._said = "".join(self._said), []
        if said.strip():
            yield Message("assistant", said, clock.now())

    def _begun(self, told: Mapping[str, Any]) -> ToolCall:
        raw = text(told.get("tool_id"))
        name, parameters = WORDS.said(text(told.get("tool_name")), mapping(told.get("parameters")))
        call = ToolCall(self.ids.begun(raw), name, parameters, "unknown", started=clock.now())
        self._open[raw] = call
        return call

    def _ended(self, told: Mapping[str, Any]) -> ToolCall:
        raw = text(told.get("tool_id"))
        now = clock.now()
        begun = self._open.pop(raw, None) or ToolCall(raw, "", {}, "unknown", started=now)
        failed = told.get("status") != "success"
        status: ToolStatus = "error" if failed else "unknown" if begun.name == "Bash" else "success"
        output = text(told.get("output")) or text(mapping(told.get("error")).get("message"))
        return ToolCall(self.ids.ended(raw), begun.name, begun.parameters, status, output, None, begun.started, now)

    def _result(self, told: Mapping[str, Any]) -> Iterable[Event]:
        self.completed = told.get("status") == "success"
        if not self.completed:
            self._fail(mapping(told.get("error")))
        now = clock.now()
        for model, used in mapping(mapping(told.get("stats")).get("models")).items():
            used = mapping(used)
            cached, output = count(used.get("cached")), count(used.get("output_tokens"))
            fresh = count(used.get("input"))
            if fresh is None and (whole := count(used.get("input_tokens"))) is not None:
                fresh = max(whole - (cached or 0), 0)
            yield ModelCall(f"{self.session}-{model}-{now}", model, usage(fresh, 0, cached, output), True, now, now)

    def _fail(self, error: Mapping[str, Any]) -> None:
        message = text(error.get("message")) or text(error.get("type"))
        found = _API_ERROR.search(message)
        body = parsed(found[1]) if found else {}
        status = count(mapping(body.get("error")).get("code"))
        if status is None:
            self.failed(Cause.AGENT_CRASH, message)
        else:
            self.failed(*fault_of_response(status, {}, body))
