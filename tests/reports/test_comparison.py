"""Pairs, the test of McNemar, intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.reports.comparison import compare, mcnemar
from pytest_codereval.reports.markdown import cell, comparison_page, run_page
from pytest_codereval.reports.run_report import RunReport, TrialReport, figures

NAMES = {"p": "passed", "f": "failed", "e": "error", "n": "not_evaluated", "s": "skipped"}


def trials(statuses: str, **more: Any) -> list[TrialReport]:
    """One trial for each letter, each of a task of its own: `t0`, `t1`, ..."""
    found = []
    for number, letter in enumerate(statuses):
        summary = {
            "trial": f"t{number}",
            "task_id": f"t{number}",
            "row_id": None,
            "variant": None,
            "repeat": 1,
            "repeats": 1,
            "status": NAMES[letter],
            "message": "what | it `said` <b>",
            "score": 1.0 if letter == "p" else None,
            "tokens": None,
            "cost_usd": 0.5,
            "cost_complete": letter != "e",
        } | more
        found.append(TrialReport(summary, {}, Path("x"), None))
    return found


def test_a_comparison_tells_better_from_worse_and_leaves_out_what_was_not_measured() -> None:
    found = compare(trials("ppfenps"), trials("pfpppnp"))
    assert [pair.name for pair in found.better] == ["t2", "t3"]
    assert [pair.name for pair in found.worse] == ["t1"]
    assert len(found.pairs) == 4
    assert found.difference == 1 / 4
    page = comparison_page(found, "old", "new")
    assert "4 trials were measured on both sides: 2 better, 1 worse" in page
    assert "- t1: passed -> failed: what \\| it \\`said\\` &lt;b>" in page


def test_partners_that_are_missing_are_named() -> None:
    found = compare(trials("pp"), trials("p"))
    assert (found.only_before, found.only_after) == (("t1",), ())


def test_what_passed_before_and_is_not_measured_after_is_lost() -> None:
    found = compare(trials("pppppf"), trials("pfns"))
    assert ([pair.name for pair in found.worse], found.lost) == (["t1"], ("t2", "t3", "t4"))
    assert "## Passed before, not measured after\n\n- t2\n- t3\n- t4" in comparison_page(found, "a", "b")


@pytest.mark.parametrize(
    ("session", "said"),
    [
        (None, "did not come to its end"),
        ({"exit_status": 2}, "exit status 2"),
        ({"exit_status": 1, "collected": 4, "not_reported": ["a", "b"]}, "2 of 4 collected items never reported"),
        ({"exit_status": 3, "messages": ["the records of 1 trials are gone"]}, "the records of 1 trials are gone"),
        ({"exit_status": 1, "collected": 4, "not_reported": [], "messages": []}, ""),
    ],
)
def test_a_run_that_is_not_whole_says_so(session: dict[str, Any] | None, said: str) -> None:
    run = RunReport(Path("run"), session, tuple(trials("p")), (), ())
    assert said in " ".join(run.warnings)
    assert bool(run.warnings) == bool(said)
    assert said in run_page(run)
    assert said in comparison_page(compare(trials("p"), trials("p")), "a", "b", run.warnings)


def test_nothing_measured_on_both_sides_is_said() -> None:
    found = compare(trials("n"), trials("p"))
    assert (found.difference, found.interval, found.p_value) == (None, None, None)
    assert "No trial was measured on both sides" in comparison_page(found, "a", "b")


def test_errors_count_in_the_rate_and_unknown_costs_are_told() -> None:
    found = figures(trials("pens"))
    assert found.pass_rate == 0.5
    assert (found.cost_usd, found.cost_complete) == (1.5, False), "what is known of a trial counts"
    assert figures(trials("ppns", cost_usd=None, cost_complete=True)).cost_complete, "nothing was begun"


@pytest.mark.parametrize(("better", "worse", "p"), [(0, 0, None), (5, 5, 1.0), (0, 5, 0.0625), (10, 0, 2 / 1024)])
def test_mcnemar(better: int, worse: int, p: float | None) -> None:
    assert mcnemar(better, worse) == (p if p is None else pytest.approx(p))


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_symmetric_and_a_chance(better: int, worse: int) -> None:
    p = mcnemar(better, worse)
    assert p == mcnemar(worse, better)
    assert (p is None) == (better + worse == 0)
    assert p is None or (0 <= p <= 1 and math.isfinite(p))


@given(st.text("pfe", min_size=2, max_size=30), st.data())
def test_the_interval_holds_the_difference_of_alike_tasks(before: str, data: st.DataObject) -> None:
    after = data.draw(st.text("pfe", min_size=len(before), max_size=len(before)))
    found = compare(trials(before), trials(after))
    assert found.interval is not None
    assert found.difference is not None
    assert -1 <= found.interval[0] <= found.interval[1] <= 1
    if before == after:
        assert (found.difference, found.interval) == (0, (0, 0))


@given(st.text())
def test_a_cell_stays_one_cell(text: str) -> None:
    shown = cell(text)
    assert "\n" not in shown
    assert "<" not in shown
    assert not re.search("@(?!&#8203;)", shown), "nobody is called by name"
    assert unescaped_bars(shown) == 0


def unescaped_bars(text: Sequence[str]) -> int:
    """How many `|` stand without an odd number of backslashes before them."""
    count = run = 0
    for char in text:
        count += char == "|" and run % 2 == 0
        run = run + 1 if char == "\\" else 0
    return count
