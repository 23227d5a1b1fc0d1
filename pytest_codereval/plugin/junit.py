"""A testcase per criterion in JUnit XML and `-v` lines, made on the controller after the item's teardown.

The reports go to every plugin but those that count: pass or fail of a session, `-x`, `--lf` and the progress bar know
trials only.
"""

from __future__ import annotations

import functools
from collections.abc import Generator, Sequence
from typing import Any

import pytest

from ..reports.table import ADVISORY, counts
from .options import is_worker
from .summaries import IS_LAST, SUMMARIES
from .tolerance import is_tolerated

COUNTING_PLUGINS = (
    "session",
    "dsession",
    "lfplugin",
    "nfplugin",
    "stepwiseplugin",
    "terminalprogress",
    "terminalreporter",
    "codereval-session",
    "codereval-terminal",
)

ISOLATION = ("codereval.driver", "codereval.isolation")
"""Properties of a trial that its criteria have too."""


class CriterionReport(pytest.TestReport):
    """One criterion, or a gate over several trials, as reporters see it."""


def log_apart(config: pytest.Config, reports: Sequence[CriterionReport]) -> None:
    """Give reports to every plugin but those that count."""
    manager = config.pluginmanager
    leave_out = [plugin for name in COUNTING_PLUGINS if (plugin := manager.get_plugin(name)) is not None]
    log = manager.subset_hook_caller("pytest_runtest_logreport", leave_out)
    for report in reports:
        log(report=report)


class Expander:
    """Turns the summaries that a trial's report carries into reports of criteria."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._waiting: dict[tuple[str, object], pytest.TestReport] = {}
        self._order = TestcaseOrder(config)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._order.expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: object, ids: Sequence[str]) -> None:
        self._order.expect(ids)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None]:
        yield
        if isinstance(report, CriterionReport):
            return
        self._order.note_new(report.nodeid)
        key = (report.nodeid, getattr(report, "worker_id", None))
        if hasattr(report, SUMMARIES):
            self._waiting[key] = report
        if key in self._waiting and (report.when == "teardown" or hasattr(report, IS_LAST)):
            parent = self._waiting.pop(key)
            for summary in getattr(parent, SUMMARIES):
                for criterion in _criteria(summary) if summary["is_task"] else ():
                    self._emit(parent, criterion)
            self._order.note_new(report.nodeid)

    def _emit(self, parent: pytest.TestReport, criterion: dict[str, Any]) -> None:
        log_apart(self._config, _reports(parent, criterion))

    def place(self, trials: Sequence[str]) -> None:
        """The testcases made since the last trial ended stand behind those of the last of these trials."""
        self._order.note_new(max(trials, key=self._order.position))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        self._order.restore()


class TestcaseOrder:
    """Puts the testcases of the XML file in the order of collection, so that any number of workers gives one file.

    The list of testcases is no public API of pytest's; without it they stay in the order in which the trials ended.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._expected: dict[str, int] = {}
        self._position: dict[int, int] = {}
        self._known = 0

    @functools.cached_property
    def _testcases(self) -> list[object]:
        for plugin in self._config.pluginmanager.get_plugins():
            found = getattr(plugin, "node_reporters_ordered", None)
            if isinstance(found, list):
                return found
        return []

    def expect(self, ids: Sequence[str]) -> None:
        """Remember the order of collected items."""
        for nodeid in ids:
            self._expected.setdefault(nodeid, len(self._expected))

    def position(self, nodeid: str) -> int:
        """The place of an item in the order of collection."""
        return self._expected.get(nodeid, -1)

    def note_new(self, nodeid: str) -> None:
        """The testcases made since the last call belong to this item."""
        for testcase in self._testcases[self._known :]:
            self._position[id(testcase)] = self.position(nodeid)
        self._known = len(self._testcases)

    def restore(self) -> None:
        """Sort what was noted; what belongs to no item, such as an error of collection, comes first."""
        self._testcases.sort(key=lambda testcase: self._position.get(id(testcase), -1))


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config) and config.getini("codereval_junit") == "both":
        config.pluginmanager.register(Expander(config), "codereval-expander")


def _criteria(summary: dict[str, Any]) -> list[dict[str, Any]]:
    """Each criterion with its `diagnostic`: what was seen of it after the agent had failed, None without a failure."""
    seen = {(each["index"], each["name"]): each for each in summary["post_failure"]}
    return [{**each, "diagnostic": seen.get((each["index"], each["name"]))} for each in summary["criteria"]]


def _reports(parent: pytest.TestReport, criterion: dict[str, Any]) -> list[CriterionReport]:
    """Two reports for one testcase: the verdict, and the teardown that carries the properties and closes it."""
    file, _, trial = parent.nodeid.partition("::")
    task, bracket, label = trial.partition("[")
    nodeid = f"{file}::{task}::{criterion['name']}{bracket}{label}"
    path, line, _ = parent.location
    common: dict[str, Any] = {
        "nodeid": nodeid,
        "location": (path, line, f"{task}::{criterion['name']}{bracket}{label}"),
        "keywords": {},
    }
    when, outcome, longrepr = _verdict(parent, criterion)
    if outcome == "failed" and is_tolerated(parent):
        outcome, longrepr = "skipped", (path, (line or 0) + 1, f"tolerated: {longrepr}")
    if outcome == "failed" and hasattr(parent, "wasxfail"):
        when, outcome, common["wasxfail"] = "call", "skipped", f"reason: {parent.wasxfail}"
    verdict = CriterionReport(outcome=outcome, longrepr=longrepr, when=when, duration=criterion["duration"], **common)
    closing = CriterionReport(
        outcome="passed", longrepr=None, when="teardown", user_properties=_properties(parent, criterion), **common
    )
    for report in (verdict, closing):
        for name in ("node", "worker_id", "testrun_uid"):
            if hasattr(parent, name):
                setattr(report, name, getattr(parent, name))
    return [verdict, closing]


def _verdict(parent: pytest.TestReport, criterion: dict[str, Any]) -> tuple[Any, Any, Any]:
    text = "\n".join(part for part in (criterion["reason"], criterion["details"]) if part) or criterion["description"]
    match criterion["verdict"]:
        case "not_evaluated":
            path, line, _ = parent.location
            return "call", "skipped", (path, (line or 0) + 1, _why_skipped(criterion))
        case "error" if counts(criterion):
            return "setup", "failed", text
        case "fail" if counts(criterion):
            return "call", "failed", text
    return "call", "passed", None


def _why_skipped(criterion: dict[str, Any]) -> str:
    diagnostic = criterion.get("diagnostic") or criterion
    if diagnostic["verdict"] == "not_evaluated":
        return f"not evaluated: {diagnostic['reason']}"
    return f"diagnostic: {diagnostic['verdict']}"


def _properties(parent: pytest.TestReport, criterion: dict[str, Any]) -> list[tuple[str, object]]:
    names = ("verdict", "score", "weight", "pass_threshold", "gating", "type", "description", "label")
    found = [(f"codereval.{name}", criterion[name]) for name in names if criterion[name] is not None]
    if criterion.get("advisory"):
        found.append(("codereval.advisory", ADVISORY))
    if not counts(criterion) and criterion["reason"]:
        found.append(("codereval.reason", criterion["reason"]))
    if criterion["note"]:
        found.append(("codereval.note", criterion["note"]))
    if (diagnostic := criterion.get("diagnostic")) is not None:
        seen = [("diagnostic", "verdict"), ("diagnostic_score", "score"), ("diagnostic_reason", "reason")]
        found += [(f"codereval.{name}", diagnostic[key]) for name, key in seen if diagnostic[key] not in (None, "")]
    return found + [each for each in parent.user_properties if each[0] in ISOLATION]
