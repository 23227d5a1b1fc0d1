"""Watching an agent at work, to stop its run once criteria say that its outcome is certain."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import clock
from ..criteria.contract import Evidence, Verdict
from ..criteria.registry import checker, live
from ..errors import CoderEvalError, JudgingError
from ..judging.bounded import bounded
from ..judging.early_stop import EarlyStop, Reason, Watched, Watchlist, share, stopping, watchlist
from ..judging.judge import threshold
from ..judging.judgements import checked_judgement
from ..judging.metrics import reaches
from ..recorder.invocation import InvocationLog
from ..sandbox.protocol import ProcessResult
from ..trajectory.model import Event, ToolCall
from .evidence import evidence_in

if TYPE_CHECKING:
    from .attempt import Attempt, Plan
    from .books import Books

CPU_SECONDS = 5.0
"""Computing time that the look at one criterion after one tool call may take."""

SECONDS_IN_ALL = 60.0
"""Time that the looks at one attempt may take together."""


class EarlyStopWatch:
    """Looks at the criteria each time a tool call has ended, and never again once something went wrong with that.

    `stop` tells how the run is to be stopped, `fault` why nobody looks any more: the run then goes on to its end.
    """

    def __init__(
        self, what: Watchlist, see: Callable[[], Evidence], turns: Callable[[], int], cap: int | None = None
    ) -> None:
        """`see` gives the evidence of this attempt so far, `turns` its turns; `cap` is the most turns of one run."""
        self.stop: EarlyStop | None = None
        self.fault = ""
        self.what = what
        self._see = see
        self._turns = turns
        self._cap = cap
        self._verdicts: dict[int, Verdict] = {}
        self._begun: set[str] = set()
        self._ended: set[str] = set()
        self._started = clock.monotonic()
        self._turns_before = 0
        self._left = SECONDS_IN_ALL

    def begin_run(self) -> None:
        """The agent gets its next prompt."""
        self._turns_before = self._turns()

    def goes_on(self, event: Event) -> bool:
        """Take what the agent just told; whether its run may go on."""
        if self.stop is not None:
            return False
        if self.fault or not isinstance(event, ToolCall):
            return True
        self._begun.add(event.id)
        if event.ended is None and event.status == "unknown":
            return True
        self._ended.add(event.id)
        begun = clock.monotonic()
        try:
            self._look()
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
        self._left -= clock.monotonic() - begun
        if self._left <= 0:
            self.fault = self.fault or f"looking at the criteria took more than {SECONDS_IN_ALL:g} s"
        return self.stop is None

    def _look(self) -> None:
        evidence = self._see()
        for item in self.what.watched:
            if item.index not in self._verdicts and (verdict := _verdict(item, evidence)) is not None:
                self._verdicts[item.index] = verdict
        found = stopping(self.what, self._verdicts, len(self._ended))
        if found is not None and (found[0] is not Reason.PASSED or self._passes_now(evidence)):
            self.stop = self._described(*found)

    def _passes_now(self, evidence: Evidence) -> bool:
        """Whether the armed criteria, judged on what there is, reach the threshold: a pass never stops a fail."""
        watched = self.what.watched
        passed = [
            item
            for item in watched
            if (self._verdicts[item.index] is Verdict.PASS if item.index in self._verdicts else _passes(item, evidence))
        ]
        return reaches(share(passed, watched), self.what.threshold)

    def _described(self, reason: Reason, item: Watched) -> EarlyStop:
        turns = self._turns()
        criterion = item.criterion
        return EarlyStop(
            reason=reason,
            criterion={"name": item.name, "type": criterion.type, "description": criterion.description},
            armed=tuple(each.name for each in self.what.watched),
            turn=turns,
            tool_call=len(self._begun),
            elapsed=clock.monotonic() - self._started,
            turns_remaining=None if self._cap is None else max(0, self._cap - (turns - self._turns_before)),
            gate_threshold=self.what.threshold,
        )


def _verdict(item: Watched, evidence: Evidence) -> Verdict | None:
    look = live(item.criterion.type)
    if look is None:
        return None
    verdict = bounded(lambda: look(item.criterion, evidence), CPU_SECONDS)
    if verdict not in (None, Verdict.PASS, Verdict.FAIL):
        raise JudgingError(f"{item.criterion.type} gave the live verdict {verdict!r:.80}")
    return verdict


def _passes(item: Watched, evidence: Evidence) -> bool:
    """Whether the check passes the criterion now. What cannot be judged while the agent works does not pass."""
    criterion = item.criterion
    try:
        found = bounded(lambda: checker(criterion.type)(criterion, evidence), CPU_SECONDS)
        return checked_judgement(found, criterion).score >= threshold(criterion)
    except CoderEvalError:
        return False


def make_watch(plan: Plan, attempt: Attempt, books: Books) -> EarlyStopWatch | None:
    """The watch over one attempt, None when nothing may stop its run."""
    what = watchlist(plan.spec.task)
    if what is None:
        return None

    def see() -> Evidence:
        assert attempt.sandbox is not None, "stage() comes first"
        log = attempt.equipment.recorder.seen() if attempt.equipment is not None else InvocationLog()
        evidence = evidence_in(attempt.sandbox, plan.spec.task, books.trajectory(attempt.number), log)
        return dataclasses.replace(evidence, shell=_no_shell)

    return EarlyStopWatch(what, see, lambda: books.meter.turns(attempt.number), plan.max_turns)


def _no_shell(command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
    raise JudgingError("no command is run while the agent works")
