"""The session as a whole: nothing lost, nothing silently green, and what the run directory says at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import pytest

from .. import clock
from ..errors import CoderEvalError
from .options import RUN_DIRECTORY_PATH, is_worker, run_directory


class SessionGuard:
    """Lives on the controller. Compares what was collected with what has reported."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started = clock.now()
        self._expected: set[str] = set()
        self._reported: set[str] = set()
        self._messages: list[str] = []

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if self._config.getoption("codereval_run_dir") and not self._config.option.collectonly:
            try:
                run_directory(self._config).claim()
            except CoderEvalError as error:
                raise pytest.UsageError(str(error)) from None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self._expect(ids)

    def _expect(self, ids: Sequence[str]) -> None:
        self._expected.update(nodeid for nodeid in ids if _is_task_id(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "teardown" or report.failed:
            self._reported.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """A trial whose worker died is an error, in the terminal as in JUnit."""
        if _is_task_id(crashitem):
            report.when = "setup"
            self._reported.add(crashitem)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._config.option.collectonly:
            return
        self._check_unevaluated(session)
        self._check_lost(session)
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
        failing = [
            f"{count} {status}"
            for status, count in summary.statuses.items()
            if OUTCOMES[status].fails_session and not (allowed and status is Status.NOT_EVALUATED)
        ]
        if failing:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            self._messages.append(f"exit status 1: {', '.join(failing)}")

    def _check_lost(self, session: pytest.Session) -> None:
        """A collected trial that never reported was lost on the way: the session must not look like a success."""
        stopped = session.shouldfail or session.shouldstop
        if stopped or session.exitstatus not in (0, 1, 5):
            return
        lost = sorted(self._expected - self._reported)
        if lost:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._messages.append(f"{len(lost)} collected trials never reported, e.g. {', '.join(lost[:5])}")

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


def _is_task_id(nodeid: str) -> bool:
    return nodeid.partition("::")[0].endswith((".yaml", ".yml"))
