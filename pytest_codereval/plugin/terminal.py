"""What the terminal says beyond pytest's own lines: criteria under -v, and a closing section with rate and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from ..reports.isolation import isolation_text
from .collection import trial_of
from .options import RUN_DIRECTORY_PATH, is_worker
from .spending import budget_line
from .summaries import IS_TASK, SUMMARIES
from .tolerance import is_tolerated

if TYPE_CHECKING:
    from ..judging.outcomes import Status


class Summary:
    """Counts the trials of the session and writes about them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._status_of: dict[str, Status] = {}
        self._trials = 0
        self._cost = Decimal()
        self._cost_of_users = Decimal()
        self._cost_of_judges = Decimal()
        self._cost_incomplete = 0
        self._cost_of_stored = Decimal()
        self.executed_only = 0
        self._expected_failures = 0
        self._in_python_tests = 0
        self.unevaluated_in_python = 0
        self._left_out = 0
        self._noted_passes = 0
        self._isolation: dict[str, Counter[str]] = {}
        self._tolerated: set[str] = set()

    @property
    def tolerated(self) -> int:
        """How many trials failed and are judged together with the other repeats of their row."""
        return len(self._tolerated)

    @property
    def statuses(self) -> Counter[Status]:
        """How many trials ended in each status."""
        return Counter(self._status_of.values())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        yield
        for summary in getattr(report, SUMMARIES, ()):
            self._count(report, summary)
            if self._config.get_verbosity() > 0 and summary["is_task"]:
                self._write_criteria(summary)
        if not hasattr(report, SUMMARIES) and getattr(report, IS_TASK, False) and report.failed:
            self._count_error(report)

    def _count(self, report: pytest.TestReport, summary: dict[str, Any]) -> None:
        from ..judging.outcomes import Status
        from ..running.standing import EXECUTED

        self._trials += 1
        self._cost += Decimal(str(summary["cost_usd"] or 0))
        self._cost_of_users += Decimal(str(summary["simulated_user_cost_usd"] or 0))
        self._cost_of_judges += Decimal(str(summary["judge_cost_usd"] or 0))
        is_known = all(summary[f"{who}cost_complete"] for who in ("", "simulated_user_", "judge_"))
        self._cost_incomplete += not is_known and summary["status"] != "skipped"
        self._left_out += summary["script_left_out"]
        self._noted_passes += sum(1 for c in summary["criteria"] if c["verdict"] == "pass" and c["note"])
        if summary["driver"]:
            said = isolation_text(summary["driver"], summary["isolation"])
            self._isolation.setdefault(summary["driver"], Counter())[said] += 1
        status = Status(summary["status"])
        stored = summary["stored"] or {}
        self._cost_of_stored += Decimal(str(stored.get("cost_usd") or 0))
        executed = self._config.getoption("codereval_execute_only") and summary["message"] == EXECUTED
        if not summary["is_task"]:
            self._in_python_tests += 1
            self.unevaluated_in_python += status is Status.NOT_EVALUATED and report.skipped and not executed
        elif hasattr(report, "wasxfail") and report.skipped:
            self._expected_failures += 1
        else:
            unexpected = status is Status.PASSED and report.failed
            if is_tolerated(report):
                self._tolerated.add(report.nodeid)
            else:
                self._tolerated.discard(report.nodeid)
            self._status_of[report.nodeid] = Status.FAILED if unexpected else status
            self.executed_only += executed and status is Status.NOT_EVALUATED

    def _count_error(self, report: pytest.TestReport) -> None:
        """A trial whose record could not be written, or whose clean-up failed, is an error, whatever it was before."""
        from ..judging.outcomes import Status

        self._status_of[report.nodeid] = Status.ERROR
        self._tolerated.discard(report.nodeid)

    def _write_criteria(self, summary: dict[str, Any]) -> None:
        from ..reports.table import DIAGNOSIS, informing

        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is None:
            return
        terminal.ensure_newline()
        for criterion in summary["criteria"]:
            _write_criterion(terminal, criterion)
        if summary["early_stop"]:
            terminal.write_line(f"    stopped early: {summary['early_stop']['message']}", yellow=True)
        if summary["post_failure"]:
            terminal.write_line(f"    {DIAGNOSIS}:", yellow=True)
        for criterion in summary["post_failure"]:
            _write_criterion(terminal, informing(criterion))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._trials:
            return
        from ..judging.outcomes import Status, pass_rate

        statuses = self.statuses
        rate = pass_rate(statuses)
        counts = ", ".join(f"{statuses[status]} {status}" for status in Status if statuses[status])
        if self._tolerated:
            counts += f", {self.tolerated} of the failed tolerated"
        terminalreporter.write_sep("=", "codereval")
        if self._expected_failures:
            counts = ", ".join(filter(None, [counts, f"{self._expected_failures} expected to fail"]))
        if self._in_python_tests:
            counts = ", ".join(filter(None, [counts, f"{self._in_python_tests} in Python tests"]))
        terminalreporter.write_line(f"trials: {counts}")
        terminalreporter.write_line("pass rate: " + ("nothing measured" if rate is None else f"{rate:.1%}"))
        terminalreporter.write_line(f"cost: {self._costs()}")
        for said in self._isolation.values():
            terminalreporter.write_line(isolation_line(said))
        if line := budget_line(self._config, self._config.stash[RUN_DIRECTORY_PATH]):
            terminalreporter.write_line(line)
        if self._noted_passes:
            number = f"{self._noted_passes} criteria" if self._noted_passes > 1 else "1 criterion"
            terminalreporter.write_line(f"passed with a note: {number} (-v shows it, such as a guard that is unproven)")
        if self._left_out:
            terminalreporter.write_line(left_out_line(self._left_out))
        terminalreporter.write_line(f"run directory: {self._config.stash[RUN_DIRECTORY_PATH]}")

    def _costs(self) -> str:
        text = f"${self._cost:.4f}"
        if self._cost_of_users:
            text += f", of simulated users ${self._cost_of_users:.4f}"
        if self._cost_of_judges:
            text += f", of judges ${self._cost_of_judges:.4f}"
        if self._cost_of_stored:
            text += f" (stored trials had cost ${self._cost_of_stored:.4f})"
        if self._cost_incomplete:
            text += f", and what is not known of {self._cost_incomplete} trials"
        return text


def isolation_line(said: Counter[str]) -> str:
    """What is said of one driver: how most of its trials were isolated, and that some were otherwise."""
    (most, number), *others = said.most_common()
    rest = sum(said.values()) - number
    return f"isolation: {most}" + (f" (otherwise in {rest} trials: see their records)" if others else "")


def pytest_report_collectionfinish(config: pytest.Config, items: list[pytest.Item]) -> str | None:
    from ..agents.registry import leaves_script_out

    override = config.getoption("codereval_agent")
    trials = [trial for item in items if (trial := trial_of(item)) is not None] if override else []
    tasks = {trial.path for trial in trials if leaves_script_out(trial.task, override)}
    return left_out_line(len(tasks)) if tasks else None


def left_out_line(tasks: int) -> str:
    """What is said when the agent of the command line takes the place of scripts."""
    return f"codereval: --codereval-agent leaves out the script steps of {tasks} task{'s' if tasks > 1 else ''}"


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        config.pluginmanager.register(Summary(config), "codereval-terminal")


def _write_criterion(terminal: pytest.TerminalReporter, criterion: dict[str, Any]) -> None:
    from ..reports.table import criterion_line

    reason = criterion["note" if criterion["verdict"] == "pass" else "reason"].split("\n")[0]
    terminal.write_line(f"    {criterion_line(criterion)}  {reason}".rstrip(), **_markup(criterion))


def _markup(criterion: dict[str, Any]) -> dict[str, bool]:
    from ..reports.table import counts

    colour = {"pass": "green", "fail": "red", "error": "red"}.get(criterion["verdict"], "yellow")
    return {colour if counts(criterion) else "yellow": True}
