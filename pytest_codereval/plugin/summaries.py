"""What a report carries of an item's trials, as plain data that survives the way from a worker to the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ..errors import CoderEvalError
from ..text import wire
from .collection import TaskFile, trial_of
from .fixtures import TRIALS
from .resolving import resolved

if TYPE_CHECKING:
    from ..judging.outcomes import Status
    from ..task.trials import TrialSpec

SUMMARIES = "codereval_summaries"
"""Attribute of the report that carries the summaries."""

IS_TASK = "codereval_is_task"
"""Attribute of every report of an item of a task file."""

IS_LAST = "codereval_is_last"
"""Attribute of a report that no teardown follows, because its process died."""


def is_task(item: pytest.Item) -> bool:
    """Whether the item comes from a task file."""
    return isinstance(item.parent, TaskFile)


def summaries_of(item: pytest.Item, report: pytest.TestReport) -> list[dict[str, Any]]:
    """The summaries for this report: none for teardown and for a setup that passed."""
    if report.when == "teardown" or (report.when == "setup" and report.outcome == "passed"):
        return []
    trials = item.stash.get(TRIALS, [])
    if trials:
        if report.failed and is_task(item):
            trials[-1].note_failure(f"the test around it failed in {report.when}: {_first_line(report)}")
        return [wire(trial.summary() | {"is_task": is_task(item)}) for trial in trials]  # type: ignore[misc]
    spec = trial_of(item)
    return [_unstarted(spec, report)] if spec is not None and report.when == "setup" else []


def _first_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr)).split("\n")[0]


def _unstarted(spec: TrialSpec, report: pytest.TestReport) -> dict[str, Any]:
    from ..judging.outcomes import Status

    if report.outcome == "skipped":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        return summary_without_trial(spec, Status.SKIPPED, reason)
    return summary_without_trial(spec, Status.ERROR, f"the trial did not start: {_first_line(report)}")


def summary_without_trial(spec: TrialSpec, status: Status, message: str) -> dict[str, Any]:
    """The summary of a trial that cannot tell it itself."""
    from ..judging.outcomes import Status
    from ..judging.strictness import nothing_evaluated
    from ..store.record import describe_trial
    from ..store.summary import summary_of

    criteria = () if status is Status.SKIPPED else nothing_evaluated(spec.task, message)
    facts = describe_trial(spec) | {
        "status": status,
        "cause": None,
        "message": message,
        "criteria": [result.as_record() for result in criteria],
    }
    summary = summary_of(facts, None) | {"is_task": True, "cost_complete": False, "attempts": 0}
    return wire(summary)  # type: ignore[return-value]


def summary_of_lost(config: pytest.Config, nodeid: str) -> list[dict[str, Any]]:
    """The summary of a trial whose worker died, made from its task file; empty when that cannot be loaded any more."""
    from ..judging.outcomes import Status

    path, _, name = nodeid.partition("::")
    try:
        trials = resolved(config, config.rootpath / path).trials
    except CoderEvalError:
        return []
    found = [trial for trial in trials if trial.trial_id == name]
    return [summary_without_trial(trial, Status.ERROR, "the process that ran this trial died") for trial in found]
