"""Judging all criteria of a trial, one after the other, each for itself."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from .. import clock
from ..criteria.contract import CriterionResult, Evidence, Judgement, Verdict
from ..criteria.registry import checker
from ..errors import CoderEvalError
from ..recorder.log import place_log, remove_log
from ..text import clean
from .bounded import bounded

CPU_SECONDS = 5.0
"""Computing time that one criterion may take in this process; programs that it runs have their own timeout."""

NAME_LENGTH = 60


def criterion_names(criteria: Sequence[Any]) -> list[str]:
    """A short name for each criterion, unique in its task, fit for a node id.

    It is the author's `name`, else made of type and description.
    """
    names: list[str] = []
    used: Counter[str] = Counter()
    for criterion in criteria:
        name = criterion.name or f"{criterion.type}-{_slug(criterion.description)}".rstrip("-")
        used[name] += 1
        names.append(name if used[name] == 1 else f"{name}-{used[name]}")
    return names


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:NAME_LENGTH].rstrip("-")


def judge(criteria: Sequence[Any], evidence: Evidence) -> tuple[CriterionResult, ...]:
    """Judge each criterion in the order of the task. Never raises because of a criterion."""
    names = criterion_names(criteria)
    return tuple(
        _judge_one(index, name, criterion, evidence)
        for index, (name, criterion) in enumerate(zip(names, criteria, strict=True))
    )


def not_evaluated(criteria: Sequence[Any], reason: str) -> tuple[CriterionResult, ...]:
    """The results of a trial whose criteria were never looked at."""
    return tuple(
        _result(index, name, criterion, Verdict.NOT_EVALUATED, reason=reason)
        for index, (name, criterion) in enumerate(zip(criterion_names(criteria), criteria, strict=True))
    )


def threshold(criterion: Any) -> float:
    """The score that this criterion must reach; reference_comparison calls it `similarity_threshold`."""
    return float(getattr(criterion, "similarity_threshold", criterion.pass_threshold))


def _judge_one(index: int, name: str, criterion: Any, evidence: Evidence) -> CriterionResult:
    if not criterion.enabled:
        return _result(index, name, criterion, Verdict.NOT_EVALUATED, reason="switched off (enabled: false)")
    started = clock.monotonic()
    try:
        with _log_in_view(criterion, evidence):
            judgement = bounded(lambda: checker(criterion.type)(criterion, evidence), CPU_SECONDS)
    except CoderEvalError as error:
        return _result(index, name, criterion, Verdict.ERROR, reason=str(error), started=started)
    except Exception as error:
        reason = f"the checker of {criterion.type} raised {type(error).__name__}: {error}"
        return _result(index, name, criterion, Verdict.ERROR, reason=reason, started=started)
    verdict = Verdict.PASS if judgement.score >= threshold(criterion) else Verdict.FAIL
    return _result(index, name, criterion, verdict, judgement=judgement, started=started)


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
        gating=criterion.weight > 0 and criterion.enabled,
        reason=clean(judgement.reason if judgement else reason),
        details=clean(judgement.details) if judgement else "",
        label=judgement.label if judgement else None,
        expected_label=judgement.expected_label if judgement else None,
        duration=clock.monotonic() - started if started is not None else 0.0,
    )


@contextlib.contextmanager
def _log_in_view(criterion: Any, evidence: Evidence) -> Iterator[None]:
    """While a criterion that reads the recorder's log as a file is judged, the file is there; else never."""
    named = [getattr(criterion, field, None) for field in ("path", "agent_file", "command")]
    wanted = evidence.invocations.recorded_tools and any(
        isinstance(text, str) and "cli_mocks" in text for text in named
    )
    if not wanted:
        yield
        return
    place_log(evidence.workspace.root, evidence.invocations)
    try:
        yield
    finally:
        remove_log(evidence.workspace.root)
