"""The test function that stands behind every task: all before the call phase is setup, here it is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .fixtures import TrialRun


def run_task(codereval_run: TrialRun) -> None:
    __tracebackhide__ = True
    codereval_run.assert_passed()
