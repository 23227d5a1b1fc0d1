"""Fixtures for task files and for Python tests in the repositories that use this plugin."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..text import wire
from .again import make_trial
from .collection import TRIAL, CoderEvalWarning
from .handlers import find_by_name
from .resolving import resolved

if TYPE_CHECKING:
    from ..again.stored import StoredTrial
    from ..criteria.contract import CriterionResult
    from ..judging.gate import Decision
    from ..recorder.invocation import InvocationLog
    from ..sandbox.workspace import Workspace
    from ..task.trials import TrialSpec
    from ..trajectory.model import Trajectory
    from ..trial import Trial

TRIALS = pytest.StashKey["list[Trial | StoredTrial]"]()
"""The trials that an item has run, in order."""


class CriteriaNotMet(AssertionError):
    """A gating criterion of the task was not met."""


class CriteriaNotJudged(Exception):
    """A gating criterion could not be judged: the trial is an error."""


class TrialRun:
    """A trial after its seal: the agent is dead, nothing changes any more, the evidence can be looked at."""

    def __init__(self, trial: Trial | StoredTrial) -> None:
        self._trial = trial

    @property
    def workspace(self) -> Workspace:
        """The sealed workspace; its readers never follow a link out of it."""
        return self._trial.evidence.workspace

    @property
    def trajectory(self) -> Trajectory | None:
        """Messages and tool calls of the agent, None for the agent `none`."""
        return self._trial.trajectory

    @property
    def invocations(self) -> InvocationLog:
        """The recorded calls of the tools in `sandbox.record_cli`."""
        return self._trial.evidence.invocations

    @property
    def final_answer(self) -> str:
        """The agent's last message."""
        return self._trial.evidence.final_answer

    def judge(self) -> Decision:
        """Judge the task's criteria once and return status, reason and weighted score."""
        return self._trial.decision or self._trial.grade()

    @property
    def criteria(self) -> tuple[CriterionResult, ...]:
        """The results of the criteria after `judge`."""
        return self._trial.criteria

    def assert_passed(self) -> None:
        """Judge, and fail, error or skip the test as the outcome of the task demands."""
        __tracebackhide__ = True
        from ..judging.outcomes import OUTCOMES

        decision = self.judge()
        match OUTCOMES[decision.status].pytest:
            case "failed":
                raise CriteriaNotMet(decision.reason)
            case "error":
                raise CriteriaNotJudged(decision.reason)
            case "skipped":
                pytest.skip(f"not evaluated: {decision.reason}")


@pytest.fixture
def _codereval_case(request: pytest.FixtureRequest) -> TrialSpec:
    """The trial of this item of a task file, or the one that a Python test's mark names."""
    if hasattr(request, "param"):
        return request.param  # type: ignore[no-any-return]
    if hasattr(request.function, TRIAL):
        return getattr(request.function, TRIAL)  # type: ignore[no-any-return]
    mark = request.node.get_closest_marker("codereval")
    if mark is None or "task" not in mark.kwargs:
        pytest.fail('codereval_trial needs a mark such as @pytest.mark.codereval(task="tasks/hello.yaml")', False)
    unknown = sorted({*map(str, mark.args), *mark.kwargs} - {"task", "row"})
    if unknown:
        pytest.fail(f"@pytest.mark.codereval takes task= and row=, not {', '.join(unknown)}", False)
    return load_trial(request.config, request.path.parent / mark.kwargs["task"], mark.kwargs.get("row"))


@pytest.fixture
def codereval_trial(_codereval_case: TrialSpec) -> TrialSpec:
    """The trial to run: the task with its row and repeat. A Python test names it by a mark:
    ``@pytest.mark.codereval(task="tasks/hello.yaml", row="row-1")``, the path being relative to the test's file.
    """
    return _codereval_case


def load_trial(config: pytest.Config, path: Path, row: str | None = None) -> TrialSpec:
    """The trial of a task file; of a dataset's rows the one called `row`. Raises CoderEvalError."""
    from ..errors import CoderEvalError

    trials: dict[str | None, TrialSpec] = {}
    for trial in resolved(config, path).trials:
        trials.setdefault(trial.row_id, trial)
    if row is None and len(trials) == 1:
        return next(iter(trials.values()))
    if row not in trials:
        raise CoderEvalError(f"{path}: no row {row!r}; the rows are {', '.join(map(str, trials))}")
    return trials[row]


@pytest.fixture
def codereval_run(request: pytest.FixtureRequest, codereval_trial: TrialSpec) -> TrialRun:
    """Stage the task, let its agent work, seal; the test then looks at the evidence and may call ``judge()``."""
    return _run(request, codereval_trial)


@pytest.fixture
def codereval_run_task(request: pytest.FixtureRequest) -> Callable[..., TrialRun]:
    """A function ``run(path, row=None)`` that runs a task file, as often as the test likes."""

    def run(path: str | Path, row: str | None = None) -> TrialRun:
        return _run(request, load_trial(request.config, request.path.parent / path, row))

    return run


def _run(request: pytest.FixtureRequest, spec: TrialSpec) -> TrialRun:
    __tracebackhide__ = True
    trials = request.node.stash.setdefault(TRIALS, [])
    item = request.node.nodeid + (f"#{len(trials) + 1}" if trials else "")
    trial = make_trial(request.config, spec, functools.partial(find_by_name, request, spec.path.parent), item)
    trials.append(trial)
    request.node.addfinalizer(lambda: _finish(request, trial))
    _execute(trial)
    return TrialRun(trial)


def _execute(trial: Trial | StoredTrial) -> None:
    __tracebackhide__ = True
    from ..errors import TrialError
    from ..judging.outcomes import CAUSES, OUTCOMES

    try:
        trial.execute()
    except TrialError as error:
        if OUTCOMES[CAUSES[error.cause].status].pytest == "skipped":
            pytest.skip(f"not evaluated: {error}")
        raise


def _finish(request: pytest.FixtureRequest, trial: Trial | StoredTrial) -> None:
    __tracebackhide__ = True
    try:
        trial.finish()
        for leftover in trial.leftovers:
            warnings.warn(CoderEvalWarning(f"{trial.spec.trial_id}: not removed: {leftover}"), stacklevel=1)
    finally:
        if trial.folder is not None:
            request.node.ihook.pytest_codereval_trial_finished(
                config=request.config, summary=wire(trial.summary()), folder=trial.folder
            )
