"""When verdicts that are certain before the end may stop the agent's run, and which criteria then decide."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..criteria.contract import Verdict
from ..criteria.registry import kind_of
from .judge import criterion_names
from .metrics import reaches
from .strictness import strict_tools

if TYPE_CHECKING:
    from ..task.models import Task


class Reason(enum.StrEnum):
    """Why the run was stopped. `DECIDED` is that of a task with `stop_early: true`."""

    PASSED = "criterion_passed"
    FAILED = "criterion_failed"
    OVERDUE = "decision_budget_exceeded"
    DECIDED = "decided"

    @property
    def was_to_fail(self) -> bool:
        """Whether the run was stopped because the armed criteria could not reach their threshold any more."""
        return self in (Reason.FAILED, Reason.OVERDUE)


@dataclasses.dataclass(frozen=True)
class Watched:
    """A criterion that is looked at while the agent works.

    `can_pass`: a live pass may come. `stops`: that pass may stop the run. `overdue_after` are the tool calls after
    which a pass comes too late, None for never; what cannot pass live is never overdue.
    """

    index: int
    name: str
    criterion: Any
    can_pass: bool
    stops: bool = False
    overdue_after: int | None = None

    @property
    def weight(self) -> float:
        return float(self.criterion.weight)


@dataclasses.dataclass(frozen=True)
class Watchlist:
    """What is looked at. `whole`: the trial's outcome stops the run, else what is armed does.

    `gating` is how much decides that outcome: criteria, and tools that must answer every call, of which nobody knows
    before the end that they did.
    """

    watched: tuple[Watched, ...]
    threshold: float = 1.0
    whole: bool = False
    gating: int = 0


def watchlist(task: Task) -> Watchlist | None:
    """What may stop the run of this task early, None when nothing may."""
    limits = task.run_limits
    if limits is not None and limits.stop_early is False:
        return None
    found = tuple(_watched(task))
    if not found:
        return None
    threshold = limits.stop_early_gate_threshold if limits is not None else 1.0
    strict = [tool for strictness in ("fail", "error") for tool in strict_tools(task, strictness)]
    gating = sum(criterion.gating for criterion in task.success_criteria) + len(strict)
    return Watchlist(found, threshold, task.stop_early, gating)


def _watched(task: Task) -> Iterator[Watched]:
    criteria = task.success_criteria
    for index, (name, criterion) in enumerate(zip(criterion_names(criteria), criteria, strict=True)):
        armed = getattr(criterion, "stop_early", None)
        if not criterion.gating or not (task.stop_early or armed is not None):
            continue
        verdicts = polarities(criterion)
        if armed is None and not verdicts:
            continue
        can_pass = Verdict.PASS in verdicts
        if armed is None:
            yield Watched(index, name, criterion, can_pass)
        else:
            overdue = armed.decide_within if can_pass else None
            yield Watched(index, name, criterion, can_pass, armed.on_pass == "stop" and can_pass, overdue)


def polarities(criterion: Any) -> frozenset[Verdict]:
    """The verdicts that this criterion may give while the agent works; both where its type does not tell."""
    kind = kind_of(criterion.type)
    if kind.live_verdict is None:
        return frozenset()
    if kind.live_polarities is None:
        return frozenset((Verdict.PASS, Verdict.FAIL))
    return frozenset(kind.live_polarities(criterion))


Stopping = tuple[Reason, Watched]
"""Why the run is stopped, and the criterion that decided."""


def stopping(what: Watchlist, verdicts: Mapping[int, Verdict], calls: int) -> Stopping | None:
    """Whether the run is to be stopped now.

    `verdicts` are those that are certain, by the criterion's index, in the order in which they came; `calls` is the
    number of tool calls that have ended.
    """
    by_index = {item.index: item for item in what.watched}
    came = [(by_index[index], verdict) for index, verdict in verdicts.items()]
    if what.whole:
        return _outcome(came, what.gating)
    return _armed(what, came, calls)


def _outcome(came: Sequence[tuple[Watched, Verdict]], gating: int) -> Stopping | None:
    for item, verdict in came:
        if verdict is Verdict.FAIL:
            return Reason.DECIDED, item
    return (Reason.DECIDED, came[-1][0]) if came and len(came) == gating else None


def _armed(what: Watchlist, came: Sequence[tuple[Watched, Verdict]], calls: int) -> Stopping | None:
    """Fail once the best that is still possible is below the threshold, else pass once the worst reaches it.

    Either waits for those armed criteria that may still pass: the first for all of them, the second for those whose
    pass does not stop the run.
    """
    decided = {item.index for item, _ in came}
    passed = [item for item, verdict in came if verdict is Verdict.PASS]
    failed = [item for item, verdict in came if verdict is Verdict.FAIL]
    open_items = [item for item in what.watched if item.index not in decided]
    overdue = [item for item in open_items if item.overdue_after is not None and item.overdue_after <= calls]
    waiting = [item for item in open_items if item.can_pass and item not in overdue]
    best = 1 - share([*failed, *overdue], what.watched)
    if (failed or overdue) and not waiting and not reaches(best, what.threshold):
        return (Reason.FAILED, failed[0]) if failed else (Reason.OVERDUE, overdue[0])
    stoppers = [item for item in what.watched if item.stops]
    worst = share([item for item in passed if item.stops], stoppers)
    if stoppers and reaches(worst, what.threshold) and not any(not item.stops for item in waiting):
        return Reason.PASSED, passed[-1]
    return None


def share(some: Sequence[Any], of: Sequence[Any]) -> float:
    """sum(weights of some) / sum(weights of all)."""
    return float(sum(item.weight for item in some) / (sum(item.weight for item in of) or 1.0))


@dataclasses.dataclass(frozen=True)
class EarlyStop:
    """How a run was stopped early, as the trial's record has it.

    `armed` are the names of the criteria that decide. `tool_call` counts from 1 the calls that were begun in this
    attempt, `turn` its turns; `elapsed` are seconds. `turns_remaining` is None without a cap on turns.
    """

    reason: Reason
    criterion: Mapping[str, str]
    armed: tuple[str, ...]
    turn: int
    tool_call: int
    elapsed: float
    turns_remaining: int | None
    gate_threshold: float

    @property
    def message(self) -> str:
        """What happened, in one line."""
        name = self.criterion["name"]
        what = {
            Reason.PASSED: f"{name} passed",
            Reason.FAILED: f"{name} failed",
            Reason.OVERDUE: f"{name} was not decided in time",
            Reason.DECIDED: f"{name} decided the outcome",
        }[self.reason]
        return f"{what} at tool call {self.tool_call} (turn {self.turn})"

    def as_record(self) -> dict[str, Any]:
        """The fields and `message` as plain data."""
        return {**vars(self), "criterion": dict(self.criterion), "armed": list(self.armed), "message": self.message}
