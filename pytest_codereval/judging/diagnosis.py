"""Evidence after a failure: the criteria that only read, looked at for diagnosis. It decides nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import clock
from ..criteria.contract import CriterionResult, Evidence, GradingShell, Verdict
from ..errors import JudgingError
from ..sandbox.protocol import ProcessResult
from ..text import clean
from .judge import is_the_checkers, judge
from .strictness import nothing_evaluated

if TYPE_CHECKING:
    from ..task.models import Task

OWN_TIME = 60.0
"""Seconds for the diagnosis of a trial whose task sets no `task_timeout`."""

NOT_READING = "not looked at after a failure: it does more than read the files that the agent left"

READ_ONLY_HINT = (
    "not run after a failure; `read_only: true` would declare that the command writes nothing and reaches no live "
    "service, and have it run for diagnosis"
)

SWITCHED_OFF = "switched off (enabled: false)"

OUT_OF_TIME = "time: nothing was left for it"


class Diagnosis:
    """Looks at a task's criteria until `deadline` (by `clock.monotonic`).

    `results` are those of all criteria in the order of the task, whatever ends the diagnosis and whenever.
    """

    def __init__(self, task: Task, deadline: float) -> None:
        self._criteria = task.success_criteria
        self._deadline = deadline
        self._blank = nothing_evaluated(task, NOT_READING)
        self._results = list(self._blank)
        self._open: list[int] = []
        for index, criterion in enumerate(self._criteria):
            reason = _why_not(criterion)
            if reason is None:
                self._open.append(index)
            self._refuse(index, reason or "the diagnosis did not come to it")
        self._open.sort(key=lambda index: _is_command(self._criteria[index]))

    @property
    def results(self) -> tuple[CriterionResult, ...]:
        return tuple(self._results)

    def evaluate(self, evidence: Evidence, verify: Callable[[], None]) -> None:
        """Judge what may be, one after the other, commands last. `verify` as of `judge`; what it raises is let through.

        Criteria get no trajectory and no desk of judges, so that one that needs them cannot take part.
        """
        while self._open and clock.monotonic() < self._deadline:
            verify()
            index = self._open[0]
            shell = _Clamped(evidence.shell, self._deadline)
            seen = dataclasses.replace(evidence, trajectory=None, desk=None, shell=shell)
            (result,) = judge([self._criteria[index]], seen)
            if shell.ran_out is not None:
                self._refuse(index, shell.ran_out)
            else:
                self._results[index] = dataclasses.replace(result, index=index, name=self._blank[index].name)
            self._open.pop(0)
        self.end(OUT_OF_TIME)
        verify()

    def end(self, reason: str) -> None:
        """Leave out what was not come to yet."""
        for index in self._open:
            self._refuse(index, reason)
        self._open.clear()

    def void(self, reason: str) -> None:
        """Believe none of the verdicts, those that were given neither."""
        self.end(reason)
        for index, result in enumerate(self._results):
            if result.verdict is not Verdict.NOT_EVALUATED:
                self._refuse(index, reason)

    def _refuse(self, index: int, reason: str) -> None:
        self._results[index] = dataclasses.replace(self._blank[index], reason=clean(reason))


def _why_not(criterion: Any) -> str | None:
    """Why the criterion may not be looked at after a failure, None when it may."""
    if not criterion.enabled:
        return SWITCHED_OFF
    try:
        if _only_reads(criterion):
            return None
    except BaseException as error:
        if not is_the_checkers(error):
            raise
        return f"{criterion.type} does not tell whether it only reads: {type(error).__name__}: {error}"
    return READ_ONLY_HINT if _is_command(criterion) else NOT_READING


def _only_reads(criterion: Any) -> bool:
    """What the criterion says, which is not believed of a judge, nor of one that judges what the agent did."""
    from ..task.file_models import FileCriterion

    needs_more = criterion.asks_model or (criterion.needs_trajectory and not isinstance(criterion, FileCriterion))
    return bool(criterion.evaluable_after_failure) and not needs_more


def _is_command(criterion: Any) -> bool:
    from ..task.command_models import RunCommand

    return isinstance(criterion, RunCommand)


class _Clamped:
    """A grading shell whose commands end with the diagnosis. `ran_out` tells that one was given less than its timeout,
    and that this was too little.
    """

    def __init__(self, shell: GradingShell, deadline: float) -> None:
        self._shell = shell
        self._deadline = deadline
        self.ran_out: str | None = None

    def __call__(self, command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        left = self._deadline - clock.monotonic()
        if left <= 0:
            self.ran_out = OUT_OF_TIME
            raise JudgingError(OUT_OF_TIME)
        result = self._shell(command, timeout=min(timeout, left), shims=shims)
        if result.timed_out and left < timeout:
            self.ran_out = f"time: the command was killed after {left:.1f} s, which was all that was left for it"
        return result
