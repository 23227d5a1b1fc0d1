"""The watch over an agent at work: when it looks, and that it never does harm."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.criteria.contract import Evidence
from pytest_codereval.errors import JudgingError
from pytest_codereval.judging.early_stop import watchlist
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.running import early_stop
from pytest_codereval.running.early_stop import EarlyStopWatch
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.task.models import Task
from pytest_codereval.trajectory.model import Message, ToolCall, Trajectory

SKILL = {"type": "skill_triggered", "description": "d", "skill_name": "a", "expected_skill": "a"}
RUNS = {"type": "command_executed", "description": "d", "command_pattern": "x"}
BEGUN = ToolCall("1", "Skill", {"skill": "a"}, "unknown")
ENDED = dataclasses.replace(BEGUN, status="success", ended=1.0)


def no_shell(command: str, *, timeout: float, shims: bool = False) -> Any:
    raise AssertionError("no command is run while the agent works")


class Seen:
    """What was told so far, and how often it was looked at."""

    def __init__(self, root: Path) -> None:
        self.told: dict[str, ToolCall] = {}
        self.looks = 0
        self._workspace = Workspace(root.resolve())

    def __call__(self) -> Evidence:
        self.looks += 1
        return Evidence(self._workspace, Trajectory(tuple(self.told.values())), InvocationLog(), no_shell)


Make = Callable[..., tuple[EarlyStopWatch, Seen]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(*criteria: dict[str, Any], threshold: float = 1.0, **armed: Any) -> tuple[EarlyStopWatch, Seen]:
        blocks = [{**criterion, "stop_early": {"on_pass": "stop", **armed}} for criterion in criteria]
        limits = {"stop_early_gate_threshold": threshold}
        content = {"task_id": "t", "description": "d", "initial_prompt": "p", "success_criteria": blocks}
        content |= {"run_limits": limits}
        what = watchlist(Task.model_validate(content))
        assert what is not None
        seen = Seen(tmp_path)
        return EarlyStopWatch(what, seen, lambda: 1), seen

    return build


def tell(watch: EarlyStopWatch, seen: Seen, *calls: ToolCall) -> list[bool]:
    found = []
    for call in calls:
        seen.told[call.id] = call
        found.append(watch.goes_on(call))
    return found


def test_it_looks_when_a_call_has_ended(make: Make) -> None:
    watch, seen = make(SKILL)
    assert watch.goes_on(Message("assistant", "I use it"))
    assert tell(watch, seen, dataclasses.replace(BEGUN, id="0"), BEGUN) == [True, True]
    assert seen.looks == 0
    assert tell(watch, seen, ENDED, dataclasses.replace(ENDED, id="2")) == [False, False]
    assert seen.looks == 1
    assert watch.stop is not None
    assert (watch.stop.tool_call, watch.stop.turns_remaining) == (2, None)


def test_a_call_that_is_told_twice_is_one_call(make: Make) -> None:
    watch, seen = make(SKILL, decide_within=2)
    other = dataclasses.replace(ENDED, parameters={"skill": "b"})
    assert tell(watch, seen, other, other, other) == [True] * 3
    assert tell(watch, seen, dataclasses.replace(other, id="2")) == [False]
    assert watch.stop is not None
    assert watch.stop.reason == "decision_budget_exceeded"


def test_a_look_that_goes_wrong_is_the_last(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, seen = make(SKILL)

    def fail(*_: object) -> None:
        raise JudgingError("no such thing")

    with monkeypatch.context() as patch:
        patch.setattr(early_stop, "live", lambda name: fail)
        assert tell(watch, seen, ENDED) == [True]
    assert watch.fault == "JudgingError: no such thing"
    assert tell(watch, seen, dataclasses.replace(ENDED, id="2")) == [True]
    assert (watch.stop, seen.looks) == (None, 1)


@pytest.mark.parametrize("answer", [True, "pass ", Evidence, 1])
def test_what_is_no_verdict_stops_nothing(make: Make, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    watch, seen = make(SKILL)
    monkeypatch.setattr(early_stop, "live", lambda name: lambda criterion, evidence: answer)
    assert tell(watch, seen, ENDED) == [True]
    assert "gave the live verdict" in watch.fault


def test_a_pattern_without_end_does_not_hold_up_the_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_stop, "CPU_SECONDS", 1.0)
    watch, seen = make({**RUNS, "command_pattern": "(x+x+)+y"})
    call = ToolCall("1", "Bash", {"command": f"echo {'x' * 60}"}, "success", ended=1.0)
    assert tell(watch, seen, call) == [True]
    assert "took more than 1 s of CPU time" in watch.fault


def test_looks_take_a_bounded_time_together(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_stop, "SECONDS_IN_ALL", 0.0)
    watch, seen = make(RUNS)
    assert tell(watch, seen, ToolCall("1", "Bash", {"command": "ls"}, "success", ended=1.0)) == [True]
    assert watch.fault == "looking at the criteria took more than 0 s"


def ran(number: str, command: str) -> ToolCall:
    return ToolCall(number, "Bash", {"command": command}, "success", exit_status=0, ended=1.0)


def test_a_pass_waits_for_what_must_still_be_met_a_least_number_of_times(make: Make) -> None:
    watch, seen = make(SKILL, {**RUNS, "min_count": 1, "max_count": 2})
    assert tell(watch, seen, ENDED, ran("2", "ls"), ran("3", "x")) == [True, True, False]
    assert watch.stop is not None
    assert (watch.stop.reason, watch.stop.criterion["type"]) == ("criterion_passed", "skill_triggered")


def test_a_pass_stops_nothing_that_would_fail_by_weight(make: Make) -> None:
    """The share of those that stop the run is reached with the first, that of all armed ones with the second."""
    other = {**SKILL, "skill_name": "c", "expected_skill": "c"}
    watch, seen = make(SKILL, other, {**RUNS, "min_count": 0, "max_count": 0}, threshold=0.5)
    second = dataclasses.replace(ENDED, id="3", parameters={"skill": "c"})
    assert tell(watch, seen, ran("2", "x"), ENDED, second) == [True, True, False]


def test_a_call_under_way_may_still_be_the_use_that_is_not_wanted(make: Make) -> None:
    watch, seen = make(SKILL, {**SKILL, "skill_name": "b"})
    unwanted = ToolCall("2", "Skill", {"skill": "b"}, "unknown")
    refused = dataclasses.replace(unwanted, status="error", ended=1.0)
    assert tell(watch, seen, unwanted, ENDED, refused) == [True, True, False]
