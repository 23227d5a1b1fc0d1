"""When certain verdicts stop a run, and which criteria decide then."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_codereval.criteria.contract import CriterionResult, Verdict
from pytest_codereval.judging.early_stop import Reason, Watchlist, stopping, watchlist
from pytest_codereval.judging.gate import decide, marked, selected
from pytest_codereval.judging.outcomes import Status
from pytest_codereval.judging.strictness import TYPE as STRICTNESS
from pytest_codereval.task.models import Task

PASS, FAIL, ERROR, OPEN = Verdict.PASS, Verdict.FAIL, Verdict.ERROR, Verdict.NOT_EVALUATED
STOP = {"on_pass": "stop"}
CAN_PASS: dict[str, Any] = {"type": "skill_triggered", "skill_name": "a", "expected_skill": "a"}
CAN_FAIL: dict[str, Any] = {"type": "skill_triggered", "skill_name": "b", "expected_skill": "a"}
AT_THE_END: dict[str, Any] = {"type": "file_exists", "path": "x"}


def task(*criteria: dict[str, Any], **fields: Any) -> Task:
    described = [{"description": f"c{index}", **each} for index, each in enumerate(criteria)]
    content = {"task_id": "t", "description": "d", "initial_prompt": "p", "success_criteria": described}
    return Task.model_validate({**content, **fields})


def listed(*criteria: dict[str, Any], **fields: Any) -> Watchlist:
    found = watchlist(task(*criteria, **fields))
    assert found is not None
    return found


def stops(what: Watchlist, *verdicts: tuple[int, Verdict], calls: int = 1) -> tuple[Reason, int] | None:
    found = stopping(what, dict(verdicts), calls)
    return (found[0], found[1].index) if found else None


def test_nothing_is_watched_where_nothing_can_stop() -> None:
    armed = {**CAN_PASS, "stop_early": STOP}
    assert watchlist(task(CAN_PASS, AT_THE_END)) is None
    assert watchlist(task(armed, run_limits={"stop_early": False})) is None
    assert watchlist(task({**armed, "enabled": False})) is None
    assert watchlist(task(AT_THE_END, stop_early=True)) is None
    assert watchlist(task({**CAN_PASS, "weight": 0}, AT_THE_END, stop_early=True)) is None
    assert watchlist(task(CAN_PASS, stop_early=True, run_limits={"stop_early": False})) is None
    assert listed(armed, CAN_FAIL).watched[0].stops


def test_the_outcome_is_certain_with_one_fail_or_with_every_pass() -> None:
    whole = listed(CAN_PASS, {**CAN_PASS, "skill_name": "c", "expected_skill": "c"}, CAN_FAIL, stop_early=True)
    assert stops(whole, (0, PASS), (1, PASS)) is None, "the third may still fail"
    assert stops(whole, (0, PASS), (2, FAIL)) == (Reason.DECIDED, 2)
    both = listed(CAN_PASS, {**CAN_PASS, "skill_name": "c", "expected_skill": "c"}, stop_early=True)
    assert stops(both, (1, PASS)) is None
    assert stops(both, (1, PASS), (0, PASS)) == (Reason.DECIDED, 0)
    assert stops(listed(CAN_PASS, AT_THE_END, stop_early=True), (0, PASS)) is None


@pytest.mark.parametrize("unmatched", ["reply", "fail", "error"])
def test_a_pass_is_not_certain_while_a_tool_may_get_a_call_that_it_does_not_know(unmatched: str) -> None:
    tool = {"tool": "uip", "responses": [{"when": {"verb": "get"}, "stdout": "a"}], "unmatched": unmatched}
    found = stops(listed(CAN_PASS, stop_early=True, sandbox={"record_cli": [tool]}), (0, PASS))
    assert found == ((Reason.DECIDED, 0) if unmatched == "reply" else None)


def test_a_pass_waits_for_armed_criteria_that_may_still_pass() -> None:
    first, second = {**CAN_PASS, "stop_early": STOP}, {**CAN_PASS, "stop_early": {}}
    assert stops(listed(first, second), (0, PASS)) is None
    assert stops(listed(first, second), (0, PASS), (1, PASS)) == (Reason.PASSED, 1)
    assert stops(listed(second), (0, PASS)) is None, "its pass stops nothing"
    assert stops(listed(first, {**CAN_FAIL, "stop_early": STOP}), (0, PASS)) == (Reason.PASSED, 0)
    late = {**CAN_PASS, "weight": 0.2, "stop_early": {"decide_within": 3}}
    weighty = listed({**first, "weight": 0.8}, late, run_limits={"stop_early_gate_threshold": 0.8})
    assert stops(weighty, (0, PASS), calls=2) is None
    assert stops(weighty, (0, PASS), calls=3) == (Reason.PASSED, 0)


def test_a_fail_counts_by_weight_and_waits_too() -> None:
    needed = {**CAN_PASS, "weight": 0.8, "stop_early": {"decide_within": 2}}
    unwanted = {**CAN_FAIL, "weight": 0.2, "stop_early": {}}
    strict = listed(needed, unwanted)
    assert stops(strict, (1, FAIL)) is None, "the first may still pass"
    assert stops(strict, (1, FAIL), calls=2) == (Reason.FAILED, 1)
    assert stops(strict, (1, FAIL), (0, PASS)) == (Reason.FAILED, 1)
    assert stops(strict, calls=2) == (Reason.OVERDUE, 0)
    lenient = listed(needed, unwanted, run_limits={"stop_early_gate_threshold": 0.8})
    assert stops(lenient, (1, FAIL), (0, PASS)) is None, "0.8 can still be reached"
    assert stops(lenient, (1, FAIL), calls=2) == (Reason.FAILED, 1)
    inert = listed({**CAN_FAIL, "stop_early": {"decide_within": 1}})
    assert stops(inert, calls=9) is None, "what cannot pass early is never late"


# -- the gate


def results(**verdicts: Verdict) -> tuple[CriterionResult, ...]:
    """Gating results by name; those of a strict tool begin with `strict`."""
    scores = {PASS: 1.0, FAIL: 0.0}
    return tuple(
        CriterionResult(
            index=index,
            name=name,
            type=STRICTNESS if name.startswith("strict") else "skill_triggered",
            description="",
            verdict=verdict,
            score=scores.get(verdict),
            weight=4.0 if name == "heavy" else 1.0,
            pass_threshold=0.9,
            gating=name != "informs",
        )
        for index, (name, verdict) in enumerate(verdicts.items())
    )


def early(*armed: str, reason: str = "criterion_passed", by: str = "a", threshold: float = 1.0) -> dict[str, Any]:
    return {
        "reason": reason,
        "criterion": {"name": by, "type": "skill_triggered", "description": ""},
        "armed": list(armed),
        "gate_threshold": threshold,
        "message": "a passed at tool call 1 (turn 1)",
    }


@pytest.mark.parametrize(
    ("verdicts", "stop", "status", "advisory"),
    [
        ({"a": PASS, "late": FAIL}, early("a"), Status.PASSED, "late"),
        ({"a": PASS, "late": ERROR}, early("a"), Status.PASSED, "late"),
        ({"a": PASS, "late": FAIL}, None, Status.FAILED, ""),
        ({"a": FAIL, "late": PASS}, early("a"), Status.FAILED, "late"),
        ({"a": ERROR, "late": PASS}, early("a"), Status.ERROR, "late"),
        ({"heavy": PASS, "b": ERROR}, early("heavy", "b", threshold=0.5), Status.ERROR, ""),
        ({"heavy": PASS, "b": FAIL}, early("heavy", "b", threshold=0.8), Status.PASSED, ""),
        ({"heavy": PASS, "b": FAIL}, early("heavy", "b", threshold=0.81), Status.FAILED, ""),
        ({"heavy": FAIL, "b": PASS}, early("heavy", "b", threshold=0.8), Status.FAILED, ""),
        ({"heavy": PASS, "b": OPEN}, early("heavy", "b", threshold=0.8), Status.NOT_EVALUATED, ""),
        ({"heavy": OPEN, "b": FAIL}, early("heavy", "b", threshold=0.9), Status.FAILED, ""),
        ({"a": PASS, "strict": FAIL, "late": PASS}, early("a"), Status.FAILED, "late"),
        ({"a": PASS, "strict": PASS, "informs": FAIL}, early("a"), Status.PASSED, ""),
        ({"a": PASS, "late": FAIL}, early("a", "renamed"), Status.FAILED, ""),
        ({"a": PASS, "late": FAIL}, early("a", reason="criterion_failed"), Status.FAILED, ""),
        ({"a": FAIL, "late": PASS}, early("a", reason="criterion_failed"), Status.FAILED, "late"),
        ({"a": PASS, "late": PASS}, early("a", reason="decision_budget_exceeded"), Status.PASSED, ""),
        ({"a": PASS, "late": FAIL}, early("a", reason="decided"), Status.FAILED, ""),
        ({"a": FAIL, "late": FAIL}, early("a", reason="decided"), Status.FAILED, "late"),
        ({"a": FAIL, "late": ERROR}, early("a", reason="decided"), Status.ERROR, ""),
        ({"a": FAIL, "late": OPEN}, early("a", reason="decided"), Status.FAILED, "late"),
    ],
)
def test_what_decides_once_a_run_was_stopped(
    verdicts: dict[str, Verdict], stop: dict[str, Any] | None, status: Status, advisory: str
) -> None:
    found = marked(results(**verdicts), stop)
    assert decide(found, None, stop).status is status
    assert [result.name for result in found if result.advisory] == advisory.split()
    assert {result.name for result in selected(found, stop)} == verdicts.keys() - {advisory, "informs"}


def test_the_message_says_how_the_run_ended() -> None:
    found = decide(results(a=PASS, late=FAIL), None, early("a"))
    assert found.reason == "1 of 1 armed criteria passed; the run was stopped early: a passed at tool call 1 (turn 1)"
    assert found.score == 0.5
    lenient = decide(results(heavy=PASS, b=FAIL), None, early("heavy", "b", threshold=0.8))
    assert lenient.reason.startswith("the armed criteria reach 0.80 of 0.8; failed: b; ")
