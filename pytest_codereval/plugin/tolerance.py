"""A failed repeat of a task with targets is tolerated: the gate over all repeats says what it means."""

from __future__ import annotations

import pytest

from .options import is_worker

TOLERATED = "codereval_tolerated"
"""Attribute of the report of a tolerated trial."""

CATEGORY = "tolerated"
"""Pytest's name for such reports in its counts."""

SHOWN = 20
"""Tolerated failures that the terminal lists without -v."""


def is_tolerated(report: pytest.TestReport) -> bool:
    """Whether this is the report of a repeat that failed and that its group's gate answers for."""
    return hasattr(report, TOLERATED)


def tolerate(report: pytest.TestReport, item: pytest.Item) -> None:
    """Turn the report of a failed trial into one that neither fails the session nor stops it."""
    path, line, _ = item.location
    report.longrepr = (path, (line or 0) + 1, f"tolerated, judged by its repeats-gate: {report.longrepr}")
    report.outcome = "skipped"
    setattr(report, TOLERATED, True)


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
    if isinstance(report, pytest.TestReport) and is_tolerated(report):
        return CATEGORY, "t", ("TOLERATED", {"yellow": True})
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reports = terminalreporter.stats.get(CATEGORY, [])
    if not reports or is_worker(config):
        return
    terminalreporter.write_sep("=", "tolerated failures")
    wordy = config.get_verbosity() > 0
    for report in reports if wordy else reports[:SHOWN]:
        text = report.longrepr[2].partition(": ")[2]
        shown = text if wordy else text.partition("\n")[0]
        terminalreporter.write_line(f"{report.nodeid}: {shown}")
    if not wordy and len(reports) > SHOWN:
        terminalreporter.write_line(f"+{len(reports) - SHOWN} more (-v shows them)")
