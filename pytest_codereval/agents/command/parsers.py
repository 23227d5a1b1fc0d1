"""Finding what makes events of a program's lines: a built-in parser, or a function of the author's."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from ... import clock
from ...errors import AgentError, Cause, CoderEvalError, TrialError
from ...sandbox.protocol import ProcessResult
from ...task.program_rules import PARSERS
from ...trajectory.checking import checked
from ...trajectory.model import Event, Message, ModelCall, ModelFault, ToolCall
from ..program import LineReader
from ..protocol import Job
from .reading import refuse_failure

MakeReader = Callable[..., LineReader]
"""Takes the trial's ids and `counted_elsewhere`."""


def find_parser(name: str, job: Job) -> MakeReader:
    """Return what makes a reader for one run. Raises AgentError(CONFIGURATION)."""
    if name in PARSERS:
        module = importlib.import_module(f"{__package__}.{name}")
        return cast("MakeReader", module.Reader)
    from ...recorder.answers.handler_files import find_handler, no_names

    try:
        parse = cast("Callable[[str], object]", find_handler(name, job.task_folder, no_names))
    except TrialError as error:
        said = str(error).removeprefix("handler ").replace("its reply", "its events")
        raise AgentError(Cause.CONFIGURATION, f"agent.parser: {said}") from error
    return lambda ids, counted_elsewhere: FunctionReader(name, parse, counted_elsewhere)


class FunctionReader:
    """Asks a function for the events of each line: one, several, or None. Times that it leaves out are filled in."""

    def __init__(self, name: str, parse: Callable[[str], object], counted_elsewhere: bool) -> None:
        self._name = name
        self._parse = parse
        self._counted_elsewhere = counted_elsewhere
        self._number = 0

    def read(self, line: bytes) -> Iterator[Event]:
        self._number += 1
        try:
            told = self._parse(line.decode("utf-8", "replace"))
            events = _listed(told)
        except CoderEvalError:
            raise
        except Exception as error:
            raise self._mistake(f"{type(error).__name__}: {error}") from error
        for event in events:
            if not isinstance(event, ToolCall | Message | ModelCall | ModelFault):
                raise self._mistake(f"expected ToolCall, Message or ModelCall, found {type(event).__name__}")
            try:
                told = checked(_timed(event))
            except ValueError as error:
                raise self._mistake(str(error)) from None
            if not (self._counted_elsewhere and isinstance(event, ModelCall | ModelFault)):
                yield told

    def _mistake(self, message: str) -> AgentError:
        return AgentError(Cause.CONFIGURATION, f"agent.parser: {self._name} at line {self._number}: {message}")

    def finish(self, result: ProcessResult) -> Iterable[Event]:
        refuse_failure(result)
        return ()


def _listed(told: object) -> list[Any]:
    if told is None:
        return []
    return [told] if dataclasses.is_dataclass(told) or not isinstance(told, Iterable) else list(told)


def _timed(event: Event) -> Event:
    now = clock.now()
    if isinstance(event, ToolCall | ModelCall):
        started = event.started or now
        ended = now if event.ended is None and isinstance(event, ModelCall) else event.ended
        if isinstance(event, ToolCall) and ended is None and event.status != "unknown":
            ended = now
        return dataclasses.replace(event, started=started, ended=ended)
    return dataclasses.replace(event, time=event.time or now)
