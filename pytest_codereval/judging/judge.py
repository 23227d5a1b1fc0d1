"""Judging all criteria of a trial, one after the other, each for itself."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

from .. import clock
from ..criteria.contract import CriterionResult, Evidence, Judgement, Verdict
from ..criteria.registry import checker
from ..errors import CoderEvalError, NotJudged
from ..recorder.log import LOG_DIRECTORY, log_in_workspace
from ..sandbox.protocol import ProcessResult
from ..text import clean
from .bounded import bounded, paused
from .judgements import checked_judgement

CPU_SECONDS = 5.0
"""Computing time that one criterion may take in this process; programs that it runs have their own timeout."""

NAME_LENGTH = 60


def criterion_names(criteria: Sequence[Any]) -> list[str]:
    """A short name for each criterion, unique in its task, fit for a node id.

    It is the author's `name`, else made of type and description.
    """
    names: list[str] = []
    for criterion in criteria:
        name = criterion.name or f"{criterion.type}-{_slug(criterion.description)}".rstrip("-")
        numbered = (name if number == 1 else f"{name}-{number}" for number in itertools.count(1))
        names.append(next(free for free in numbered if free not in names))
    return names


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:NAME_LENGTH].rstrip("-")


def judge(
    criteria: Sequence[Any], evidence: Evidence, verify: Callable[[], None] = lambda: None
) -> tuple[CriterionResult, ...]:
    """Judge each criterion in the order of the task. Never raises because of a criterion.

    `verify` sees before each criterion, and at the end, that the grading material is what it was; what it raises is
    let through, for then no verdict can be trusted.
    """
    evidence = _off_the_clock(evidence)
    results = []
    for index, (name, criterion) in enumerate(zip(criterion_names(criteria), criteria, strict=True)):
        verify()
        results.append(_judge_one(index, name, criterion, evidence))
    verify()
    return tuple(results)


def not_evaluated(criteria: Sequence[Any], reason: str) -> tuple[CriterionResult, ...]:
    """The results of a trial whose criteria were never looked at."""
    return tuple(
        _result(index, name, criterion, Verdict.NOT_EVALUATED, reason=reason)
        for index, (name, criterion) in enumerate(zip(criterion_names(criteria), criteria, strict=True))
    )


def threshold(criterion: Any) -> float:
    """The score that this criterion must reach; reference_comparison calls it `similarity_threshold`."""
    if criterion.type == "reference_comparison":
        return float(criterion.similarity_threshold)
    return float(criterion.pass_threshold)


def _judge_one(index: int, name: str, criterion: Any, evidence: Evidence) -> CriterionResult:
    if not criterion.enabled:
        return _result(index, name, criterion, Verdict.NOT_EVALUATED, reason="switched off (enabled: false)")
    started = clock.monotonic()
    try:
        with _log_in_view(criterion, evidence):
            found = _checked(criterion, evidence)
        judgement = checked_judgement(found, criterion)
    except NotJudged as error:
        return _result(index, name, criterion, Verdict.NOT_EVALUATED, reason=str(error), started=started)
    except CoderEvalError as error:
        return _result(index, name, criterion, Verdict.ERROR, reason=str(error), started=started)
    except BaseException as error:
        if not is_the_checkers(error):
            raise
        reason = f"the checker of {criterion.type} raised {type(error).__name__}: {_said(error)}"
        return _result(index, name, criterion, Verdict.ERROR, reason=reason, started=started)
    verdict = Verdict.PASS if judgement.score >= threshold(criterion) else Verdict.FAIL
    return _result(index, name, criterion, verdict, judgement=judgement, started=started)


def _checked(criterion: Any, evidence: Evidence) -> object:
    """What the checker says. One that waits for a model evaluates nothing of the author's that might not end."""
    if criterion.asks_model:
        return checker(criterion.type)(criterion, evidence)
    return bounded(lambda: checker(criterion.type)(criterion, evidence), CPU_SECONDS)


def is_the_checkers(error: BaseException) -> bool:
    """Whether this is the checker's mistake. A checker that skips or ends the test would let a trial go unjudged.

    Not its own are an interrupt and what limits the whole test, such as `pytest.fail` of a timeout.
    """
    return isinstance(error, Exception | SystemExit) or type(error).__name__ in ("Skipped", "XFailed")


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be made)"


def _result(
    index: int,
    name: str,
    criterion: Any,
    verdict: Verdict,
    *,
    reason: str = "",
    judgement: Judgement | None = None,
    started: float | None = None,
) -> CriterionResult:
    return CriterionResult(
        index=index,
        name=name,
        type=criterion.type,
        description=clean(criterion.description),
        verdict=verdict,
        score=judgement.score if judgement else None,
        weight=criterion.weight,
        pass_threshold=threshold(criterion),
        gating=criterion.gating,
        reason=clean(judgement.reason if judgement else reason),
        details=clean(judgement.details) if judgement else "",
        note=clean(judgement.note) if judgement else "",
        label=judgement.label if judgement else None,
        expected_label=(judgement.expected_label if judgement else None) or _expected(criterion),
        duration=clock.monotonic() - started if started is not None else 0.0,
        suite_thresholds=criterion.suite_thresholds or {},
        judge=judgement.judge if judgement else None,
    )


def _expected(criterion: Any) -> str | None:
    """The label that the row should get, as far as the criterion can tell; the code may be a plugin's."""
    try:
        label = criterion.expected()
    except Exception:
        return None
    return label if isinstance(label, str) else None


def _log_in_view(criterion: Any, evidence: Evidence) -> contextlib.AbstractContextManager[None]:
    """While a criterion that reads the recorder's log as a file is judged, the file is there; else never."""
    named = [getattr(criterion, field, None) for field in ("path", "agent_file", "command")]
    wanted = evidence.invocations.recorded_tools and any(
        isinstance(text, str) and LOG_DIRECTORY in text for text in named
    )
    return log_in_workspace(evidence.workspace.root, evidence.invocations) if wanted else contextlib.nullcontext()


def _off_the_clock(evidence: Evidence) -> Evidence:
    """The same evidence; what the harness computes while a command runs does not count as the criterion's time."""

    def shell(command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        with paused():
            return evidence.shell(command, timeout=timeout, shims=shims)

    return dataclasses.replace(evidence, shell=shell)
