"""Stored runs in small: judged again without a call of a model, and resumed after SIGKILL."""

from __future__ import annotations

from pathlib import Path

from .regrade_show import regrade
from .resume_show import resume


def test_judging_again_gives_equal_verdicts_and_asks_no_model(tmp_path: Path) -> None:
    shown = regrade(tmp_path.resolve(), 6, 6)
    assert (shown.trials, shown.judged_again, shown.equal) == (6, 6, 6)
    assert 0 < shown.passed < 6
    assert shown.exit_statuses == (1, 1)
    assert shown.calls_to_run >= 12
    assert shown.calls_to_judge == 0
    assert "(stored trials had cost $" in shown.output


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    shown = resume(tmp_path.resolve(), 6, 6, workers=0)
    assert shown.run_twice == frozenset()
    assert len(shown.in_records) == 6
    assert shown.in_error == frozenset()
    assert shown.torn in shown.run_again
    assert shown.said
    assert shown.kept == len(shown.before) - 1
    assert shown.again_kept == 6
