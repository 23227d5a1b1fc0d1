"""From a trial's status to pytest's reports, by the outcome table, with a table of criteria in place of a traceback."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

import pytest

from ..errors import CoderEvalError
from ..reports.isolation import isolation_text
from ..text import clean, wire
from . import fixtures
from .collection import trial_of
from .fixtures import TRIALS, CriteriaNotJudged, CriteriaNotMet
from .summaries import IS_TASK, SUMMARIES, is_task, summaries_of
from .tolerance import tolerate


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    summaries = summaries_of(item, report)
    if is_task(item):
        setattr(report, IS_TASK, True)
        if call.excinfo is not None:
            _adapt_task(report, item, call.excinfo.value, summaries)
    elif call.excinfo is not None:
        _adapt_python_test(report, item, call.excinfo.value, summaries)
    if summaries:
        setattr(report, SUMMARIES, summaries)
        _set_properties(item, summaries)
    if is_task(item) or TRIALS in item.stash:
        _clean(report, item)
    return report


def _adapt_task(
    report: pytest.TestReport, item: pytest.Item, error: BaseException, summaries: list[dict[str, Any]]
) -> None:
    is_error = any(summary["status"] == "error" for summary in summaries)
    if is_error and hasattr(report, "wasxfail"):
        del report.wasxfail
        report.outcome = "failed"
    if report.outcome == "skipped":
        spec = trial_of(item)
        if spec is not None and isinstance(report.longrepr, tuple):
            report.longrepr = (str(spec.path), spec.line, report.longrepr[2])
        return
    ours = CriteriaNotMet | CriteriaNotJudged | CoderEvalError | pytest.fail.Exception
    if isinstance(error, ours):
        report.longrepr = explain(summaries, str(error), item)
    if is_error and report.when == "call":
        report.when = "setup"
    if report.when == "call" and report.failed and isinstance(error, CriteriaNotMet) and summaries[-1]["targets"]:
        tolerate(report, item)


def _adapt_python_test(
    report: pytest.TestReport, item: pytest.Item, error: BaseException, summaries: list[dict[str, Any]]
) -> None:
    if report.skipped and isinstance(report.longrepr, tuple) and report.longrepr[0] == fixtures.__file__:
        report.longrepr = (str(item.path), (item.location[1] or 0) + 1, report.longrepr[2])
    faults = [trial.fault for trial in item.stash.get(TRIALS, [])]
    if isinstance(error, CoderEvalError) and (error in faults or report.when == "setup"):
        report.longrepr = explain(summaries, str(error), item)
    elif report.failed and summaries and summaries[-1]["status"] not in ("passed", "not_evaluated"):
        report.sections.append(("codereval", explain(summaries, str(error), item)))


def explain(summaries: list[dict[str, Any]], message: str, item: pytest.Item) -> str:
    """What went wrong, for the terminal and for JUnit: headline, score, criteria with their places, record."""
    from ..judging.outcomes import CAUSES
    from ..reports.table import criteria_table, diagnosis_table
    from ..task.places import criterion_places

    if not summaries or summaries[-1]["status"] == "passed":
        return clean(message)
    summary = summaries[-1]
    spec = trial_of(item)
    headline = summary["message"]
    if summary["cause"]:
        headline = f"{CAUSES[summary['cause']].what}: {headline}"
    parts = [headline]
    if summary["score"] is not None:
        parts.append(f"weighted score {summary['score']:.2f}")
    places = criterion_places(spec) if spec else None
    if summary["cause"] is None:
        parts.append(criteria_table(summary["criteria"], places))
    if summary["post_failure"]:
        parts.append(diagnosis_table(summary["post_failure"], places))
    if summary["record"]:
        parts.append(f"record: {summary['record']}")
    return clean("\n".join(parts))


def _set_properties(item: pytest.Item, summaries: list[dict[str, Any]]) -> None:
    """The facts of the last trial as properties of the item, which pytest copies to the reports still to come."""
    summary = summaries[-1]
    facts = [
        ("codereval.status", summary["status"]),
        ("codereval.score", summary["score"]),
        ("codereval.tokens", summary["tokens"]),
        ("codereval.cost_usd", summary["cost_usd"]),
        ("codereval.cost_complete", None if summary["cost_complete"] else "false"),
        ("codereval.attempts", summary["attempts"] if summary["attempts"] > 1 else None),
        ("codereval.stopped", summary["stopped"]),
        ("codereval.early_stop", summary["early_stop"] and summary["early_stop"]["message"]),
        ("codereval.driver", summary["driver"]),
        ("codereval.isolation", isolation_text(summary["driver"], summary["isolation"]) if summary["driver"] else None),
        ("codereval.leaks", summary["leaks"]),
        ("codereval.record", summary["record"]),
        ("codereval.stored", "true" if summary["stored"] else None),
    ]
    others = [pair for pair in item.user_properties if not pair[0].startswith("codereval.")]
    item.user_properties[:] = [*others, *((name, value) for name, value in facts if value is not None)]


def _clean(report: pytest.TestReport, item: pytest.Item) -> None:
    """A report that cannot be serialised would be lost between worker and controller."""
    report.user_properties[:] = [(clean(str(name)), wire(value)) for name, value in item.user_properties]
    report.sections[:] = [(clean(name), clean(text)) for name, text in report.sections]
    report.longrepr = _cleaned(report.longrepr)


def _cleaned(value: Any) -> Any:
    """The same text, or the same representation of a traceback with its texts cleaned in place."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list | tuple):
        return type(value)(map(_cleaned, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            if (new := _cleaned(old := getattr(value, field.name))) is not old:
                setattr(value, field.name, new)
    return value
