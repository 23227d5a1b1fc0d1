"""Options about records: judge them again, go on with a run, execute only; and what the terminal says of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import CoderEvalError
from .collection import trial_of
from .options import given_run, is_worker
from .summaries import SUMMARIES

if TYPE_CHECKING:
    from ..task.trials import TrialSpec

MOST_NAMED = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("codereval", "tasks for coding agents")
    group.addoption(
        "--codereval-regrade",
        metavar="RUN",
        help="run no agent: judge the trials of the run directory RUN from their records, by today's criteria",
    )
    group.addoption(
        "--codereval-resume",
        metavar="RUN",
        help="go on with the run directory RUN: trials that came to their end are reported from their records, those "
        "that are missing or ended in error run",
    )
    group.addoption(
        "--codereval-resume-drifted",
        choices=("error", "rerun"),
        default="error",
        help="what becomes of a stored trial whose task, files, agent, model or versions changed since: an error that "
        "names what changed (the default), or it runs again",
    )
    group.addoption(
        "--codereval-execute-only",
        action="store_true",
        help="run agents and keep everything, but judge nothing: --codereval-resume or --codereval-regrade does later",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    regrade, resume = given_run(config, "regrade"), given_run(config, "resume")
    _refuse_contradictions(config, regrade, resume)
    for option, path in (("--codereval-regrade", regrade), ("--codereval-resume", resume)):
        if path is not None and not is_worker(config):
            _check_run(option, path, in_use=option == "--codereval-regrade")
    if not is_worker(config):
        config.pluginmanager.register(Notes(config), "codereval-again")


def _refuse_contradictions(config: pytest.Config, regrade: Path | None, resume: Path | None) -> None:
    if regrade is not None:
        for name in ("codereval_resume", "codereval_execute_only"):
            if config.getoption(name):
                raise pytest.UsageError(f"--codereval-regrade and --{name.replace('_', '-')} exclude each other")
        given = config.getoption("codereval_run_dir")
        if given and Path(config.invocation_params.dir / given).resolve() == regrade:
            raise pytest.UsageError(
                f"--codereval-regrade {regrade}: its records are not overwritten; give another --codereval-run-dir"
            )
    if resume is not None and config.getoption("codereval_run_dir"):
        raise pytest.UsageError(
            "--codereval-resume and --codereval-run-dir exclude each other: the run goes on where it is"
        )
    if resume is None and config.getoption("codereval_resume_drifted") != "error":
        raise pytest.UsageError("--codereval-resume-drifted needs --codereval-resume")


def _check_run(option: str, path: Path, *, in_use: bool) -> None:
    from ..store.reader import StoredRun
    from ..store.run_directory import is_in_use

    try:
        StoredRun(path)
    except CoderEvalError as error:
        raise pytest.UsageError(f"{option}: {error}") from None
    if in_use and is_in_use(path):
        raise pytest.UsageError(f"{option}: the run directory {path} is in use by another session")


class Notes:
    """Says on the controller what was stored, what ran again and why, and what judging later lacks."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._kept = 0
        self._judged = 0
        self._reruns: list[str] = []
        self._without: dict[str, int] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for summary in getattr(report, SUMMARIES, ()):
            if rerun := summary.get("rerun_of"):
                self._reruns.append(f"{summary['trial']}: re-run: {rerun['reason']}")
            stored = summary.get("stored")
            if stored and stored.get("record"):
                self._kept += bool(stored.get("kept"))
                self._judged += not stored.get("kept")
                lacks = [f"without {each}" for each in stored.get("without", ())]
                lacks += [f"although {each} was another when they ran" for each in stored.get("differs", ())]
                for each in () if stored.get("kept") else lacks:
                    self._without[each] = self._without.get(each, 0) + 1

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not self._config.getoption("codereval_execute_only"):
            return
        trials = filter(None, map(trial_of, session.items))
        stopping = {trial.path for trial in trials if _stops_by_criteria(trial)}
        reporter: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if stopping and reporter is not None:
            said = "codereval: --codereval-execute-only judges nothing, so criteria stop no agent early: "
            reporter.write_line(f"{said}{len(stopping)} task{'s' if len(stopping) > 1 else ''} ask for it")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._kept:
            terminalreporter.write_line(f"codereval: {self._kept} trials reported from their records, not run again")
        if self._judged:
            terminalreporter.write_line(f"codereval: {self._judged} trials judged from their records, no agent ran")
        for lack, number in self._without.items():
            terminalreporter.write_line(f"codereval: {number} stored trials judged {lack}")
        for line in self._reruns[:MOST_NAMED]:
            terminalreporter.write_line(f"codereval: {line}")
        if len(self._reruns) > MOST_NAMED:
            terminalreporter.write_line(f"codereval: and {len(self._reruns) - MOST_NAMED} more re-run")


def _stops_by_criteria(trial: TrialSpec) -> bool:
    task = trial.task
    simulation = task.simulation
    simulated = simulation is not None and simulation.enabled and simulation.stop_on_criteria_pass
    return (
        simulated
        or bool(getattr(task, "stop_early", None))
        or any(getattr(criterion, "stop_early", None) for criterion in task.success_criteria)
    )
