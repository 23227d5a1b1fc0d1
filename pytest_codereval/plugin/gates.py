"""Gates over several trials: suites with thresholds and repeats with targets, judged on the controller at the end."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from ..text import clean, wire
from .junit import CriterionReport, Expander, log_apart
from .options import RUN_DIRECTORY_PATH, is_worker, run_directory
from .summaries import IS_TASK, SUMMARIES

if TYPE_CHECKING:
    from ..judging.repeats import GroupResult
    from ..judging.suites import SuiteResult

OF_TRIAL = ("trial", "task_id", "row_id", "variant", "repeat", "repeats", "rows", "targets", "status", "early_stop")
OF_CRITERION = ("index", "name", "type", "verdict", "score", "weight", "gating", "label", "expected_label")
"""What of a summary and its criteria is kept until the end of the session."""

SHOWN_PASSED = 10
"""Passed gates that the terminal lists without -v."""

Location = tuple[str, int | None, str]
Key = tuple[str, str | None]


@dataclasses.dataclass(frozen=True)
class Gate:
    """One gate with its node id, and the trials that it is judged from by their node ids."""

    nodeid: str
    trials: Sequence[str]
    location: Location
    result: SuiteResult | GroupResult
    headline: str
    table: str

    @property
    def fails(self) -> bool:
        """Whether it is missed, or is not judged although a trial failed that nothing else answers for."""
        from ..judging.checks import GateStatus
        from ..judging.outcomes import Status
        from ..judging.repeats import GroupResult

        if self.result.gate is GateStatus.PASSED:
            return False
        unanswered = isinstance(self.result, GroupResult) and self.result.statuses.get(Status.FAILED, 0)
        return self.result.gate is GateStatus.MISSED or bool(unanswered)

    def as_record(self) -> dict[str, object]:
        """The gate as plain data."""
        return {"id": self.nodeid} | self.result.as_record()


class Gates:
    """Lives on the controller. Keeps what trials reported; at the end judges what they come to together."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._trials: dict[str, dict[str, Any]] = {}
        self._locations: dict[str, Location] = {}
        self._thresholds: dict[tuple[str, str, int], Mapping[str, float]] = {}
        self._gates: list[Gate] = []
        self._fault = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for summary in getattr(report, SUMMARIES, ()):
            if summary["is_task"]:
                self._keep(report, summary)
        broke = getattr(report, IS_TASK, False) and report.failed and not hasattr(report, SUMMARIES)
        if broke and report.nodeid in self._trials:
            self._trials[report.nodeid]["status"] = "error"

    def _keep(self, report: pytest.TestReport, summary: Mapping[str, Any]) -> None:
        file = report.nodeid.partition("::")[0]
        kept = {name: summary[name] for name in OF_TRIAL}
        if kept["status"] == "passed" and report.failed:
            kept["status"] = "failed"
        kept["criteria"] = [self._kept_criterion(file, summary["task_id"], each) for each in summary["criteria"]]
        self._trials[report.nodeid] = kept
        self._locations[report.nodeid] = report.location

    def _kept_criterion(self, file: str, task: str, criterion: Mapping[str, Any]) -> dict[str, Any]:
        kept = {name: _shared(criterion[name]) for name in OF_CRITERION}
        thresholds = self._thresholds.setdefault((file, task, criterion["index"]), criterion["suite_thresholds"])
        return kept | {"suite_thresholds": thresholds}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        if self._trials:
            self._judge(session)
        yield

    def _judge(self, session: pytest.Session) -> None:
        suites, groups = self._suites(), self._groups()
        self._gates = [gate for gate in (*suites, *groups) if self._is_told(gate)]
        for gate in self._gates:
            self._report(gate)
        if self._fails_session() and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        try:
            self._write(suites, groups)
        except OSError as error:
            self._fault = f"suites.json could not be written: {error}"
            session.exitstatus = max(session.exitstatus, pytest.ExitCode.TESTS_FAILED)

    def _is_told(self, gate: Gate) -> bool:
        """Where a session only executes, its open gates are what was asked for; stored trials may decide others."""
        from ..judging.checks import GateStatus

        is_open = gate.result.gate in (GateStatus.NOT_EVALUATED, GateStatus.NOT_JUDGED) and not gate.fails
        return gate.result.gate is not None and not (is_open and self._config.getoption("codereval_execute_only"))

    def _suites(self) -> list[Gate]:
        from ..judging.suites import judge_suite
        from ..reports.gates import suite_headline, suite_table

        suites = []
        for (file, task, variant), nodeids in self._grouped(_suite_key).items():
            result = judge_suite([self._trials[nodeid] for nodeid in nodeids])
            if result.gate is None and self._trials[nodeids[0]]["rows"] == 1:
                continue
            label = f"[{variant}]" if variant and _base(self._trials[nodeids[0]]).endswith(f"{variant}]") else ""
            name = f"{task}::suite-gate{label}"
            headline, table = suite_headline(result), suite_table(result)
            suites.append(self._gate(file, name, nodeids, result, headline, table))
        return suites

    def _groups(self) -> list[Gate]:
        from ..judging.repeats import judge_group
        from ..reports.gates import group_headline, group_table

        groups = []
        for (file, base, _), nodeids in self._grouped(_group_key).items():
            first = self._trials[nodeids[0]]
            if first["repeats"] == 1 and not first["targets"]:
                continue
            result = judge_group([self._trials[nodeid] for nodeid in nodeids])
            task, bracket, label = base.partition("[")
            name = f"{task}::repeats-gate{bracket}{label}"
            headline, table = group_headline(result), group_table(result)
            groups.append(self._gate(file, name, nodeids, result, headline, table))
        return groups

    def _grouped(self, key: Callable[[Mapping[str, Any]], Key]) -> dict[tuple[str, str, str | None], list[str]]:
        found: dict[tuple[str, str, str | None], list[str]] = {}
        for nodeid, trial in self._trials.items():
            found.setdefault((nodeid.partition("::")[0], *key(trial)), []).append(nodeid)
        return found

    def _gate(self, file: str, name: str, trials: Sequence[str], result: Any, headline: str, table: str) -> Gate:
        path, line, _ = self._locations[trials[0]]
        return Gate(f"{file}::{name}", trials, (path, line, name), result, clean(headline), clean(table))

    def _report(self, gate: Gate) -> None:
        reports = _reports(gate)
        log_apart(self._config, reports)
        expander: Any = self._config.pluginmanager.get_plugin("codereval-expander")
        if isinstance(expander, Expander):
            expander.place(gate.trials)
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        if gate.fails and terminal is not None:
            terminal.stats.setdefault("failed", []).append(reports[0])

    def _fails_session(self) -> bool:
        from ..judging.checks import GateStatus

        allowed = self._config.getoption("codereval_allow_unevaluated")
        return any(gate.fails or (gate.result.gate is GateStatus.NOT_EVALUATED and not allowed) for gate in self._gates)

    def _write(self, suites: Sequence[Gate], groups: Sequence[Gate]) -> None:
        if (suites or groups) and self._config.stash[RUN_DIRECTORY_PATH].exists():
            records = {
                "suites": [gate.as_record() for gate in suites],
                "repeats": [gate.as_record() for gate in groups],
            }
            run_directory(self._config).write_suites(wire(records))  # type: ignore[arg-type]

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._fault:
            terminalreporter.write_line(f"codereval: {self._fault}", red=True)
        if not self._gates:
            return
        from ..judging.checks import GateStatus

        terminalreporter.write_sep("=", "gates")
        wordy = self._config.get_verbosity() > 0
        passed = [gate for gate in self._gates if gate.result.gate is GateStatus.PASSED]
        hidden = set() if wordy else {gate.nodeid for gate in passed[SHOWN_PASSED:]}
        for gate in self._gates:
            if gate.nodeid in hidden:
                continue
            terminalreporter.write_line(f"{_word(gate)} {gate.nodeid}: {gate.headline}", **_colour(gate))
            if wordy:
                terminalreporter.write_line(gate.table)
        if hidden:
            terminalreporter.write_line(f"+{len(hidden)} more passed (-v shows them)")


def _suite_key(trial: Mapping[str, Any]) -> Key:
    return trial["task_id"], trial["variant"]


def _group_key(trial: Mapping[str, Any]) -> Key:
    return _base(trial), trial["variant"]


def _base(trial: Mapping[str, Any]) -> str:
    """The trial's id without its repeat: what the repeats of one row have in common."""
    name: str = trial["trial"]
    if trial["repeats"] == 1 or not name.endswith(suffix := f"r{trial['repeat']}]"):
        return name
    rest = name.removesuffix(suffix)
    return rest.removesuffix("[") if rest.endswith("[") else f"{rest.removesuffix('-')}]"


def _shared(value: Any) -> Any:
    """The same text as one object, however many reports brought it."""
    return sys.intern(value) if type(value) is str else value


def _reports(gate: Gate) -> list[CriterionReport]:
    """Two reports for one testcase: what the gate came to, and the teardown that closes it."""
    from ..judging.checks import GateStatus

    path, line, _ = gate.location
    common: dict[str, Any] = {"nodeid": gate.nodeid, "location": gate.location, "keywords": {}, "duration": 0.0}
    outcome: Any = "passed"
    longrepr: Any = None
    if gate.fails:
        outcome, longrepr = "failed", f"{gate.headline}\n{gate.table}"
    elif gate.result.gate is not GateStatus.PASSED:
        outcome, longrepr = "skipped", (path, (line or 0) + 1, gate.headline)
    properties = [("codereval.gate", str(gate.result.gate))]
    return [
        CriterionReport(outcome=outcome, longrepr=longrepr, when="call", **common),
        CriterionReport(outcome="passed", longrepr=None, when="teardown", user_properties=properties, **common),
    ]


def _word(gate: Gate) -> str:
    return f"{'FAILED' if gate.fails else str(gate.result.gate).replace('_', ' '):<13}"


def _colour(gate: Gate) -> dict[str, bool]:
    from ..judging.checks import GateStatus

    if gate.fails:
        return {"red": True}
    return {"green" if gate.result.gate is GateStatus.PASSED else "yellow": True}


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        config.pluginmanager.register(Gates(config), "codereval-gates")
