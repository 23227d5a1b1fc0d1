"""What `understand` says of random programs is what a real bash did."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_codereval.trajectory.shell import understand

from .programs import Programs
from .traced import Run, Tally, disagreements, run_all

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")

PROGRAMS = 200
DECIDED = 0.4
"""The least share of commands that must be known to have run or not, so that saying `maybe` does not pass."""
JUDGED = 0.15
"""The least share of the commands known to have run whose success must be known."""


def test_random_programs(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    programs = Programs(seed=3)
    tally = Tally()
    wrong = []
    for run in run_all([programs.program() for _ in range(PROGRAMS)], tmp_path):
        program = understand(run.text, run.status)
        tally.add(program)
        wrong += [(run.text, run.status, problem) for problem in disagreements(run, program)]
    record_property("understood", str(tally))
    print(tally)
    assert wrong == []
    assert tally.unparsed <= PROGRAMS * 0.03
    assert tally.decided >= tally.commands * DECIDED
    assert tally.judged >= tally.ran * JUDGED


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"ran": "no"}, "ran 1 times, said 0"),
        ({"succeeded": False}, "succeeded is False 0 times, said 1"),
        ({"words": ("c", "1", "0", "y")}, "no such words"),
    ],
)
def test_a_wrong_claim_is_found(change: dict[str, object], problem: str) -> None:
    run = Run("c 1 0 x", 0, ((0, ("1", "0", "x")),))
    program = understand(run.text, run.status)
    assert disagreements(run, program) == []
    wrong = dataclasses.replace(program, commands=(dataclasses.replace(program.commands[0], **change),))
    assert problem in disagreements(run, wrong)[0]


def test_a_command_that_nothing_is_said_about_is_found() -> None:
    run = Run("c 1 0", 0, ((0, ("1", "0")),))
    assert disagreements(run, understand("d", 0)) == ["1: ran, and nothing is said"]
