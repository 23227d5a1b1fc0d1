"""A closing section on trials whose agent saw grading material, or may have."""

from __future__ import annotations

from typing import Any

import pytest

from ..text import clean, shorten
from .options import is_worker
from .summaries import SUMMARIES

MOST_NAMED = 20
"""Trials that the section names."""


class Leaks:
    """Lives on the controller and keeps what reports tell of leaks."""

    def __init__(self) -> None:
        self._tainted: dict[str, str] = {}
        self._inconclusive: dict[str, str] = {}
        self._warnings: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for summary in getattr(report, SUMMARIES, ()):
            self._take(summary)

    def _take(self, summary: dict[str, Any]) -> None:
        name = summary["trial"]
        first = next(iter(summary["leak_findings"]), "")
        if summary["leaks"] == "tainted":
            self._tainted[name] = first
        elif summary["leaks"] == "inconclusive" and summary["status"] != "error":
            self._inconclusive[name] = first
        for warning in summary["leak_warnings"]:
            self._warnings.setdefault(warning, name)

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not (self._tainted or self._inconclusive or self._warnings):
            return
        terminalreporter.write_sep("=", "grading material seen by agents")
        for name, finding in list(self._tainted.items())[:MOST_NAMED]:
            terminalreporter.write_line(_line(f"tainted: {name}: {finding}"), red=True)
        if (more := len(self._tainted) - MOST_NAMED) > 0:
            terminalreporter.write_line(f"tainted: {more} more", red=True)
        if self._tainted:
            terminalreporter.write_line("verdicts are as judged: read the records before you believe them")
        self._write_inconclusive(terminalreporter)
        for warning, name in list(self._warnings.items())[:MOST_NAMED]:
            terminalreporter.write_line(_line(f"warning: {name}: {warning}"), yellow=True)

    def _write_inconclusive(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._inconclusive:
            return
        (name, finding), *others = self._inconclusive.items()
        terminalreporter.write_line(
            _line(f"inconclusive: {len(others) + 1}, such as {name}: {finding}"),
            yellow=True,
        )
        if terminalreporter.config.get_verbosity() > 0:
            for name, finding in others:
                terminalreporter.write_line(_line(f"inconclusive: {name}: {finding}"), yellow=True)


def _line(text: str) -> str:
    return shorten(clean(text).replace("\n", " "), 500)


def pytest_configure(config: pytest.Config) -> None:
    if not is_worker(config):
        config.pluginmanager.register(Leaks(), "codereval-leaks")
