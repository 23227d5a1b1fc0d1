"""From a trial's status to pytest's reports, by the outcome table, with a table of criteria in place of a traceback."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import CoderEvalError
from ..text import clean, wire
from .collection import TaskFile, trial_of
from .fixtures import TRIALS, CriteriaNotJudged, CriteriaNotMet

if TYPE_CHECKING:
    from ..task.trials import TrialSpec

SUMMARIES = "codereval_summaries"
"""Attribute of the report that carries the summaries of an item's trials, as plain data."""

IS_TASK = "codereval_is_task"
"""Attribute of every report of an item of a task file."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    is_task = isinstance(item.parent, TaskFile)
    if is_task:
        setattr(report, IS_TASK, True)
    summaries = _summaries(item, report)
    if call.excinfo is not None:
        _adapt(report, item, call.excinfo.value, summaries)
    if summaries and (report.when == "call" or report.outcome != "passed"):
        setattr(report, SUMMARIES, summaries)
        _set_properties(item, report, summaries)
    return report


def _summaries(item: pytest.Item, report: pytest.TestReport) -> list[dict[str, Any]]:
    """The summaries to attach to this report: none for a passed setup and for teardown."""
    if report.when == "teardown" or (report.when == "setup" and report.outcome == "passed"):
        return []
    trials = item.stash.get(TRIALS, [])
    if trials:
        is_task = isinstance(item.parent, TaskFile)
        return [wire(trial.summary() | {"is_task": is_task}) for trial in trials]  # type: ignore[misc]
    spec = trial_of(item)
    if spec is None:
        return []
    return [_summary_of_unstarted(spec, report)]


def _summary_of_unstarted(spec: TrialSpec, report: pytest.TestReport) -> dict[str, Any]:
    from ..judging.judge import not_evaluated
    from ..judging.outcomes import Status

    status = Status.SKIPPED if report.outcome == "skipped" else Status.ERROR
    criteria = [] if status is Status.SKIPPED else not_evaluated(spec.task.success_criteria, "the trial did not start")
    summary = {
        "trial": spec.trial_id,
        "status": status,
        "cause": None,
        "message": str(report.longrepr)[:500],
        "score": None,
        "tokens": None,
        "cost_usd": None,
        "record": None,
        "is_task": True,
        "script_left_out": False,
        "criteria": [result.as_record() for result in criteria],
    }
    return wire(summary)  # type: ignore[return-value]


def _adapt(
    report: pytest.TestReport,
    item: pytest.Item,
    error: BaseException,
    summaries: list[dict[str, Any]],
) -> None:
    if report.outcome == "skipped":
        spec = trial_of(item)
        if spec is not None and isinstance(report.longrepr, tuple):
            report.longrepr = (str(spec.path), spec.line, report.longrepr[2])
        return
    is_task = isinstance(item.parent, TaskFile)
    if isinstance(error, CoderEvalError) or (is_task and isinstance(error, CriteriaNotMet | CriteriaNotJudged)):
        report.longrepr = _explain(item, summaries, str(error))
    elif summaries and not is_task:
        report.sections.append(("codereval", _explain(item, summaries, str(error))))
    if is_task and report.when == "call" and any(summary["status"] == "error" for summary in summaries):
        report.when = "setup"


def _explain(item: pytest.Item, summaries: list[dict[str, Any]], message: str) -> str:
    from ..judging.outcomes import CAUSES
    from ..reports.table import criteria_table
    from ..task.places import criterion_places

    if not summaries or summaries[-1]["status"] == "passed":
        return clean(message)
    summary = summaries[-1]
    spec = trial_of(item)
    headline = summary["message"]
    if summary["cause"]:
        headline = f"{CAUSES[summary['cause']].headline}: {headline}"
    parts = [headline]
    if summary["score"] is not None:
        parts.append(f"weighted score {summary['score']:.2f}")
    if summary["cause"] is None:
        parts.append(criteria_table(summary["criteria"], criterion_places(spec) if spec else None))
    if summary["record"]:
        parts.append(f"record: {summary['record']}")
    return clean("\n".join(parts))


def _set_properties(item: pytest.Item, report: pytest.TestReport, summaries: list[dict[str, Any]]) -> None:
    """The facts of the last trial as properties; on the item too, for pytest copies them to the reports to come."""
    summary = summaries[-1]
    facts = [
        ("codereval.status", summary["status"]),
        ("codereval.score", summary["score"]),
        ("codereval.tokens", summary["tokens"]),
        ("codereval.cost_usd", summary["cost_usd"]),
        ("codereval.record", summary["record"]),
    ]
    others = [pair for pair in item.user_properties if not pair[0].startswith("codereval.")]
    item.user_properties[:] = [*others, *((name, value) for name, value in facts if value is not None)]
    report.user_properties[:] = item.user_properties
