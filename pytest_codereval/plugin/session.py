"""The session as a whole: nothing lost, nothing silently green, and what the run directory says at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from .. import clock
from ..errors import CoderEvalError
from .collection import names_task
from .options import RUN_DIRECTORY_PATH, given_run, is_worker, make_parent, run_directory
from .summaries import IS_LAST, IS_TASK, SUMMARIES, summary_of_lost


class SessionGuard:
    """Lives on the controller. Compares what was collected with what has reported."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started = clock.now()
        self._expected: set[str] = set()
        self._reported: set[str] = set()
        self._records: dict[str, str] = {}
        self._concerned = False
        self._internal_error = False
        self._messages: list[str] = []

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        resumed = given_run(self._config, "resume") is not None
        if (resumed or self._config.getoption("codereval_run_dir")) and not _runs_nothing(self._config):
            try:
                run_directory(self._config).claim(resumed=resumed)
            except CoderEvalError as error:
                raise pytest.UsageError(str(error)) from None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self._expect(ids)

    def _expect(self, ids: Sequence[str]) -> None:
        self._expected.update(ids)
        self._concerned = self._concerned or any(names_task(nodeid, self._config) for nodeid in ids)
        if self._concerned and not _runs_nothing(self._config):
            make_parent(self._config)
            run_directory(self._config).claim(resumed=given_run(self._config, "resume") is not None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown" or report.failed:
            self._reported.add(report.nodeid)
        for summary in getattr(report, SUMMARIES, ()):
            self._concerned = True
            if summary["record"]:
                self._records[summary["record"]] = summary["trial"]

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """A trial whose worker died is an error, in the terminal as in JUnit, with its criteria not evaluated."""
        if not names_task(crashitem, self._config):
            return
        report.when = "setup"
        setattr(report, IS_TASK, True)
        setattr(report, IS_LAST, True)
        setattr(report, SUMMARIES, summary_of_lost(self._config, crashitem))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if _runs_nothing(self._config):
            return
        self._check_unevaluated(session)
        self._check_lost(session)
        self._check_records(session)
        try:
            self._close_run_directory(session)
        except OSError as error:
            self._messages.append(f"the run directory could not be completed: {error}")
            session.exitstatus = max(session.exitstatus, pytest.ExitCode.TESTS_FAILED)

    def _check_unevaluated(self, session: pytest.Session) -> None:
        from ..judging.outcomes import OUTCOMES, Status

        summary: Any = self._config.pluginmanager.get_plugin("codereval-terminal")
        if summary is None or session.exitstatus not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            return
        allowed = self._config.getoption("codereval_allow_unevaluated")
        statuses = summary.statuses
        statuses[Status.FAILED] -= summary.tolerated
        statuses[Status.NOT_EVALUATED] -= summary.executed_only
        failing = [
            f"{count} {status}"
            for status, count in statuses.items()
            if count and OUTCOMES[status].fails_session and not (allowed and status is Status.NOT_EVALUATED)
        ]
        if summary.unevaluated_in_python and not allowed:
            failing.append(f"{summary.unevaluated_in_python} not evaluated in Python tests")
        if failing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._messages.append(f"exit status 1: {', '.join(failing)}")

    def _check_lost(self, session: pytest.Session) -> None:
        """An item that never reported was lost on the way: the session must not look like a success.

        Sessions without any trial are none of our business.
        """
        if self._internal_error and session.exitstatus in (0, 1, 5):
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
        stopped = session.shouldfail or session.shouldstop
        if stopped or not self._concerned or session.exitstatus not in (0, 1, 5):
            return
        lost = sorted(self._expected - self._reported)
        if lost:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._messages.append(f"{len(lost)} collected items never reported, e.g. {', '.join(lost[:5])}")

    def pytest_internalerror(self) -> None:
        self._internal_error = self._concerned

    def _check_records(self, session: pytest.Session) -> None:
        """Every trial that reported a record must still have it, or the run cannot be believed."""
        lost = [trial for record, trial in self._records.items() if not Path(record).is_file()]
        if lost:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._messages.append(f"the records of {len(lost)} trials are gone, e.g. {', '.join(lost[:5])}")

    def _close_run_directory(self, session: pytest.Session) -> None:
        if not self._config.stash[RUN_DIRECTORY_PATH].exists():
            return
        directory = run_directory(self._config)
        lost = [str(folder) for folder, _ in directory.close_active()]
        if lost:
            self._messages.append(f"trials that died with their process: {', '.join(lost)}")
        directory.write_session(
            {
                "started": clock.isoformat(self._started),
                "ended": clock.isoformat(clock.now()),
                "exit_status": int(session.exitstatus),
                "arguments": list(self._config.invocation_params.args),
                "collected": len(self._expected),
                "reported": len(self._expected & self._reported),
                "not_reported": sorted(self._expected - self._reported),
                "messages": self._messages,
            }
        )
        directory.release()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for message in self._messages:
            terminalreporter.write_line(f"codereval: {message}", red=True)


def pytest_unconfigure() -> None:
    """Kill and remove what sandboxes may have left, where any were made in this process."""
    tempdir = sys.modules.get("pytest_codereval.sandbox.tempdir")
    if tempdir is not None:
        tempdir.shut_down()


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        config.pluginmanager.register(SessionGuard(config), "codereval-session")


def _runs_nothing(config: pytest.Config) -> bool:
    option = config.option
    return bool(option.collectonly or option.showfixtures or option.show_fixtures_per_test)
