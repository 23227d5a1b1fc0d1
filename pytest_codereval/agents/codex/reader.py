"""Makes events of the JSON lines that `codex exec --json` prints, and judges how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ... import clock
from ...errors import AgentError, Cause
from ...model_api.json_parts import parsed
from ...sandbox.protocol import ProcessResult
from ...text import head, tail
from ...trajectory.model import Event, Message, ModelCall, ModelFault
from .items import text, tool_calls

_THREAD = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOVES = ("item.started", "item.updated", "item.completed")
_LONGEST = 2000
"""Characters of a message about a failure."""

GAVE_NO_ANSWER = frozenset({Cause.REFUSED, Cause.OUTPUT_CUT, Cause.CONTEXT_FULL})
"""Ends of the last reply that fail the run also where Codex takes them for its end."""

UNREADABLE_REPLIES = 2
"""How many replies in a row may be none to work with, before the run is ended: Codex would ask without end."""


class Reader:
    """Reads one run of the program. `thread_id` is what a later run goes on with."""

    def __init__(self, run: int) -> None:
        """`run` counts the runs of one conversation, since the program numbers its items anew in each."""
        self.thread_id: str | None = None
        self._run = run
        self._started: dict[str, float] = {}
        self._completed = False
        self._failure = ""
        self._fault: ModelFault | None = None
        self._last: ModelCall | None = None
        self._unreadable = 0

    def note(self, event: Event) -> None:
        """Take notice of what the gateway tells: a fault is the cause of a failure unless a later call went well.

        Raises AgentError for the last of too many replies in a row that are none to work with.
        """
        if isinstance(event, ModelFault):
            self._fault = event
            if self._spoils_last_reply and event.cause is Cause.API_FAULT:
                self._unreadable += 1
            if self._unreadable > UNREADABLE_REPLIES:
                raise AgentError(event.cause, f"{event.message}, {self._unreadable} times in a row")
        elif isinstance(event, ModelCall) and event.parent_id is None:
            if not self._spoils_last_reply:
                self._unreadable = 0
            self._last = event
            if event.complete and not self._spoils_last_reply:
                self._fault = None

    @property
    def _spoils_last_reply(self) -> bool:
        """The last reply to the main thread is not one to work with, whatever Codex made of it."""
        return self._fault is not None and self._last is not None and self._fault.id == self._last.id

    def read(self, line: bytes) -> Iterable[Event]:
        """The events of one line; what is not understood tells nothing."""
        told = parsed(line)
        kind = told.get("type")
        if kind == "thread.started":
            thread = told.get("thread_id")
            if isinstance(thread, str) and _THREAD.fullmatch(thread):
                self.thread_id = thread
        elif kind == "turn.completed":
            self._completed = True
        elif kind == "turn.failed":
            self._completed = False
            self._failure = _message(told.get("error"))
        elif kind == "error":
            self._failure = _message(told)
        elif kind in _MOVES and isinstance(item := told.get("item"), dict):
            yield from self._item(item, ended=kind == "item.completed")

    def _item(self, item: Mapping[str, Any], ended: bool) -> Iterator[Event]:
        now = clock.now()
        if item.get("type") == "agent_message":
            said = item.get("text")
            if ended and isinstance(said, str) and said.strip():
                yield Message("assistant", said, now)
            return
        call_id = f"run-{self._run}-{text(item.get('id'))}"
        started = self._started.setdefault(call_id, now)
        yield from tool_calls(item, call_id, started, now if ended else None)

    def finish(self, result: ProcessResult) -> Iterable[Event]:
        """Nothing more is told. Raises AgentError unless the program ended well with its turn completed."""
        fault = self._fault
        no_answer = fault is not None and (fault.cause in GAVE_NO_ANSWER or self._spoils_last_reply)
        if result.exit_status == 0 and self._completed and not no_answer:
            return ()
        if fault is not None:
            said = f" (codex: {self._failure})" if self._failure and self._failure not in fault.message else ""
            raise AgentError(fault.cause, head(f"{fault.message}{said}", _LONGEST), fault.retry_after)
        said = self._failure or tail(result.stderr_text.strip(), _LONGEST) or "it said nothing"
        how = f"exited {result.exit_status}" if result.exit_status else "ended before its turn was completed"
        raise AgentError(Cause.AGENT_CRASH, head(f"codex {how}: {said}", _LONGEST))


def _message(value: object) -> str:
    if isinstance(value, Mapping):
        value = value.get("message")
    return head(text(value), _LONGEST)
