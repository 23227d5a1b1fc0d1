"""Reads what the program prints: one JSON object a line, as `--output-format stream-json` has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ... import clock
from ...errors import AgentError, Cause
from ...model_api.json_parts import mapping, mappings, parsed, text
from ...sandbox.protocol import ProcessResult
from ...trajectory.model import Event, Message, ModelFault, ToolCall
from .calls import ModelCalls
from .ending import Ending, check_end
from .tool_results import ended, notified

_OLD_NAMES = {"Task": "Agent"}
_SYNTHETIC = "<synthetic>"
_UNREADABLE = "__unparsedToolInput"

UNREADABLE_REPLIES = 2
"""Replies in a row with a tool call that cannot be read, after which the model may try again."""


class StreamReader:
    """The lines of one run. `on_start` gets the program's own account of its configuration; it may raise AgentError.

    `session` is what a further prompt goes on with. `stored` has, by the ids of tool calls, the files in the sandbox
    that hold their whole output.
    """

    def __init__(self, calls: ModelCalls, on_start: Callable[[Mapping[str, Any]], None]) -> None:
        self.session: str | None = None
        self.stored: dict[str, str] = {}
        self.tool_calls: dict[str, ToolCall] = {}
        self._calls = calls
        self._on_start = on_start
        self._ending = Ending()
        self._waiting: set[str] = set()
        self._tasks: list[Any] = []
        self._unreadable: set[str] = set()

    @property
    def only_shells_left(self) -> bool:
        """The agent has given its answer, and what keeps the program from ending are shell commands."""
        final = self._ending.final
        done = self._ending.at_rest and final is not None and final.get("is_error") is False
        return done and all(text(mapping(task).get("task_type")) == "local_bash" for task in self._tasks)

    @property
    def out_of_turns(self) -> bool:
        """The program ended at its own cap on turns."""
        return self._ending.out_of_turns

    def read(self, line: bytes) -> Iterator[Event]:
        """See `program.LineReader.read`."""
        entry = parsed(line)
        kind = entry.get("type")
        if kind == "assistant":
            yield from self._assistant(entry)
        elif kind == "user":
            yield from self._user(entry)
        elif kind == "system":
            yield from self._system(entry)
        elif kind == "result":
            self._ending.close(entry)

    def finish(self, result: ProcessResult) -> Iterator[Event]:
        """See `program.LineReader.finish`."""
        check_end(result, self._ending, self._calls)
        yield from ()

    def _assistant(self, entry: dict[str, Any]) -> Iterator[Event]:
        message = mapping(entry.get("message"))
        parent = text(entry.get("parent_tool_use_id")) or None
        if parent is not None and (sub_agent := text(entry.get("agent_id"))):
            self._calls.sub_agents[sub_agent] = parent
        if message.get("model") == _SYNTHETIC:
            if parent is None:
                self._ending.fault = text(entry.get("error"))
            return
        self._ending.go_on()
        for block in mappings(message.get("content")):
            if block.get("type") == "text" and parent is None and text(block.get("text")).strip():
                yield Message("assistant", block["text"], time=clock.now())
            elif block.get("type") == "tool_use":
                yield self._started(block, parent)
                yield from self._check_input(block, text(message.get("id")), parent)

    def _started(self, block: Mapping[str, Any], parent: str | None) -> ToolCall:
        name = text(block.get("name"))
        call = ToolCall(
            id=text(block.get("id")) or f"call-{len(self.tool_calls) + 1}",
            name=_OLD_NAMES.get(name, name),
            parameters=mapping(block.get("input")),
            status="unknown",
            started=clock.now(),
            parent_id=parent,
        )
        self.tool_calls[call.id] = call
        return call

    def _check_input(self, block: Mapping[str, Any], reply: str, parent: str | None) -> Iterator[Event]:
        """A tool call whose input breaks off is a fault of its reply; the program lets the model try again."""
        if _UNREADABLE not in mapping(block.get("input")):
            self._unreadable.clear()
            return
        fault = ModelFault(reply, Cause.API_FAULT, "the input of a tool call is not JSON", time=clock.now())
        if reply not in self._unreadable:
            yield fault
        self._unreadable.add(reply)
        if parent is None and len(self._unreadable) > UNREADABLE_REPLIES:
            raise AgentError(fault.cause, f"{fault.message}, {len(self._unreadable)} times in a row")

    def _user(self, entry: dict[str, Any]) -> Iterator[Event]:
        results = [
            block
            for block in mappings(mapping(entry.get("message")).get("content"))
            if block.get("type") == "tool_result"
        ]
        detail = mapping(entry.get("tool_use_result")) if len(results) == 1 else {}
        for block in results:
            call = self.tool_calls.get(text(block.get("tool_use_id")))
            if call is None:
                continue
            if stored := text(detail.get("persistedOutputPath")):
                self.stored[call.id] = stored
            done = ended(call, block, detail, goes_on=call.id in self._waiting)
            if done.ended is None:
                self._waiting.add(call.id)
            yield self._keep(done)

    def _system(self, entry: dict[str, Any]) -> Iterator[Event]:
        kind = entry.get("subtype")
        call = self.tool_calls.get(text(entry.get("tool_use_id")))
        if kind == "init":
            self.session = text(entry.get("session_id")) or self.session
            self._on_start(entry)
        elif kind == "background_tasks_changed":
            tasks = entry.get("tasks")
            self._tasks = tasks if isinstance(tasks, list) else []
        elif kind == "task_started" and call is not None:
            if call.name == "Agent":
                self._calls.sub_agents[text(entry.get("task_id"))] = call.id
            if entry.get("is_backgrounded") is True:
                self._waiting.add(call.id)
        elif kind == "task_notification" and call is not None and call.id in self._waiting:
            self._waiting.discard(call.id)
            if call.name == "Bash" and (stored := text(entry.get("output_file"))):
                self.stored[call.id] = stored
            yield self._keep(notified(call, entry))

    def _keep(self, call: ToolCall) -> ToolCall:
        self.tool_calls[call.id] = call
        return call

    def with_output(self, call_id: str, output: str) -> ToolCall:
        """The call with its whole output."""
        return self._keep(dataclasses.replace(self.tool_calls[call_id], output=output))
