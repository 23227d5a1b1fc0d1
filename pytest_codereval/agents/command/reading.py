"""What becomes of a program's standard output: its final answer as a whole, or events of its lines."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ... import clock
from ...errors import AgentError, Cause
from ...model_api.json_parts import parsed
from ...sandbox.protocol import ProcessResult
from ...text import shorten, tail
from ...trajectory.model import Event, Message, ModelCall, ModelFault
from .told import Ids

LONGEST_ANSWER = 50_000_000
"""Bytes."""

_SHOWN = 1000


def refuse_failure(result: ProcessResult, said: str = "") -> None:
    """Raise AgentError(AGENT_CRASH) when the program exited with another status than 0."""
    if result.exit_status != 0:
        said = said or tail(result.stderr_text.strip(), _SHOWN) or "it said nothing on its standard error"
        raise AgentError(Cause.AGENT_CRASH, f"the program exited {result.exit_status}: {said}")


class TextReader:
    """All that the program prints is its final answer."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._size = 0

    def read(self, line: bytes) -> Iterable[Event]:
        self._size += len(line) + 1
        if self._size > LONGEST_ANSWER:
            raise AgentError(Cause.AGENT_CRASH, f"the program printed more than {LONGEST_ANSWER} bytes")
        self._lines.append(line)
        return ()

    def finish(self, result: ProcessResult) -> Iterable[Event]:
        answer = b"\n".join(self._lines).decode("utf-8", "replace").strip()
        refuse_failure(result, tail(result.stderr_text.strip() or answer, _SHOWN))
        if answer:
            yield Message("assistant", answer, clock.now())


class JsonReader(abc.ABC):
    """Base of the built-in parsers: one JSON object a line, what is none is passed over.

    A subclass makes events of an object, sets `session` to the id by which the program resumes its conversation,
    `failure` while the last thing that it told is a failure, and `completed` when it told that its work is done.
    `counted_elsewhere` tells that a gateway counts the calls of the model.
    """

    program = ""

    def __init__(self, ids: Ids, counted_elsewhere: bool = False) -> None:
        self.ids = ids
        self.session: str | None = None
        self.failure: AgentError | None = None
        self.completed = False
        self._counted_elsewhere = counted_elsewhere

    def read(self, line: bytes) -> Iterable[Event]:
        told = parsed(line)
        return self._counted(self.events(told)) if told else ()

    @abc.abstractmethod
    def events(self, told: Mapping[str, Any]) -> Iterable[Event]:
        """The events of one object. Never raises, whatever it holds."""

    def rest(self) -> Iterable[Event]:
        """What is left to tell at the end of the stream."""
        return ()

    def finish(self, result: ProcessResult) -> Iterable[Event]:
        yield from self._counted(self.rest())
        if self.failure is not None:
            raise self.failure
        refuse_failure(result)
        if not self.completed:
            raise AgentError(
                Cause.AGENT_CRASH, f"the program exited 0, but what it printed has no end as {self.program} tells it"
            )

    def _counted(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if not (self._counted_elsewhere and isinstance(event, ModelCall | ModelFault)):
                yield event

    def failed(self, cause: Cause, message: str, retry_after: float | None = None) -> None:
        """Keep a failure until a later reply shows that the program got over it."""
        self.failure = AgentError(cause, f"{self.program}: {shorten(message, _SHOWN) or 'it failed'}", retry_after)
