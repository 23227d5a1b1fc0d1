"""A criterion beside what an agent did, as data, and the evidence after each of its events."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from ...recorder.invocation import Invocation, InvocationLog
from ...sandbox.protocol import ProcessResult
from ...sandbox.workspace import Workspace
from ...trajectory.model import ToolCall, ToolStatus, Trajectory
from ..contract import Evidence
from ..registry import kind_of

CaseEvent = ToolCall | Invocation
"""A later tool call with the id, or recorded call with the sequence, of an earlier one takes that one's place."""

_ids = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class LiveCase:
    """`criterion` and `others` are written as in a task, without description; `verdict` is the one after all events.

    `others` are further criteria of the task, which this one may name. `recorded` are the tools that the recorder sees,
    None for those of the recorded calls.
    """

    name: str
    criterion: Mapping[str, Any]
    events: Sequence[CaseEvent]
    verdict: Literal["pass", "fail"] | None
    others: Sequence[Mapping[str, Any]] = ()
    recorded: frozenset[str] | None = None

    def __str__(self) -> str:
        return f"{self.criterion['type']}: {self.name}"

    def model(self) -> Any:
        """The criterion as it is loaded, made anew."""
        return _loaded(self.criterion)

    def evidence(self, events: Sequence[CaseEvent], workspace: Workspace) -> Evidence:
        """The evidence after these events, made anew. No command can be run."""
        latest: dict[tuple[type, object], CaseEvent] = {}
        for event in events:
            latest[_key(event)] = event
        calls = tuple(event for event in latest.values() if isinstance(event, ToolCall))
        recorded = sorted((e for e in latest.values() if isinstance(e, Invocation)), key=lambda each: each.sequence)
        return Evidence(
            workspace=workspace,
            trajectory=Trajectory(calls),
            invocations=InvocationLog(tuple(recorded), recorded_tools=self._recorded_tools),
            shell=_no_shell,
            cli_patterns=self._patterns,
        )

    @functools.cached_property
    def _patterns(self) -> dict[str, Any]:
        others = map(_loaded, self.others)
        return {other.name: other for other in others if other.type == "cli_called" and other.name}

    @property
    def _recorded_tools(self) -> frozenset[str]:
        if self.recorded is not None:
            return self.recorded
        return frozenset(event.tool for event in self.events if isinstance(event, Invocation))

    def shuffled(self, seed: int) -> LiveCase:
        """The same events in another order, in which each call still begins before it ends."""
        order = list(self.events)
        random.Random(seed).shuffle(order)
        return dataclasses.replace(self, events=_in_order(self.events, order), verdict=None)

    def continued(self, other: LiveCase) -> LiveCase:
        """These events and then those of another case, as calls of their own."""
        recorded = None if self.recorded is None else self.recorded | other._recorded_tools
        events = (*self.events, *_as_new(other.events))
        return dataclasses.replace(self, events=events, recorded=recorded, verdict=None)


def _loaded(fields: Mapping[str, Any]) -> Any:
    return kind_of(fields["type"]).model.model_validate({"description": "d", **fields})


def _key(event: CaseEvent) -> tuple[type, object]:
    return type(event), event.id if isinstance(event, ToolCall) else event.sequence


def _in_order(original: Sequence[CaseEvent], shuffled: Sequence[CaseEvent]) -> tuple[CaseEvent, ...]:
    """Events of one call keep their order; recorded calls are numbered by when they are first told of."""
    left = {_key(event): [each for each in original if _key(each) == _key(event)] for event in original}
    return tuple(_numbered(left[_key(event)].pop(0) for event in shuffled))


def _numbered(events: Iterator[CaseEvent]) -> Iterator[CaseEvent]:
    numbers: dict[int, int] = {}
    for event in events:
        if isinstance(event, Invocation):
            number = numbers.setdefault(event.sequence, len(numbers) + 1)
            event = dataclasses.replace(event, sequence=number)
        yield event


def _as_new(events: Sequence[CaseEvent]) -> Iterator[CaseEvent]:
    ids: dict[str, str] = {}
    for event in events:
        if isinstance(event, ToolCall):
            yield dataclasses.replace(event, id=ids.setdefault(event.id, f"call-{next(_ids)}"))
        else:
            yield dataclasses.replace(event, sequence=event.sequence + 1_000_000)


def tool(name: str, status: ToolStatus = "success", exit_status: int | None = None, **parameters: object) -> Any:
    """The begin and the end of one call of the agent's tool `name`; with the status `unknown` it never ends."""
    begun = ToolCall(f"call-{next(_ids)}", name, parameters, "unknown")
    if status == "unknown":
        return (begun,)
    return begun, dataclasses.replace(begun, status=status, exit_status=exit_status, ended=1.0)


def call(sequence: int, text: str, exit_status: int | None = 0) -> tuple[Invocation, ...]:
    """The begin and the end of one call that the recorder saw, `text` split at spaces; None for one without end."""
    name, *argv = text.split()
    begun = Invocation(sequence, name, tuple(argv), cwd=".")
    if exit_status is None:
        return (begun,)
    return begun, dataclasses.replace(begun, exit_status=exit_status, ended=1.0)


def _no_shell(command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
    raise AssertionError("a criterion with a live verdict runs no command")
