"""Verdicts in, status out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.agents.limits import Stop
from pytest_codereval.criteria.contract import CriterionResult, Verdict
from pytest_codereval.errors import Cause
from pytest_codereval.judging.gate import decide
from pytest_codereval.judging.outcomes import CAUSES, OUTCOMES, STATUS_OF_VERDICT, Status, pass_rate

verdicts = st.sampled_from(Verdict)


def result(verdict: Verdict, weight: float = 1.0, enabled: bool = True, score: float | None = None) -> CriterionResult:
    evaluated = verdict in (Verdict.PASS, Verdict.FAIL)
    known = score if score is not None else float(verdict is Verdict.PASS)
    return CriterionResult(
        index=0,
        name=f"c-{verdict}",
        type="t",
        description="d",
        verdict=verdict,
        score=known if evaluated else None,
        weight=weight,
        pass_threshold=0.9,
        gating=weight > 0 and enabled,
    )


@given(st.lists(verdicts, min_size=1))
def test_the_worst_gating_verdict_decides(given_verdicts: list[Verdict]) -> None:
    order = [Verdict.ERROR, Verdict.FAIL, Verdict.NOT_EVALUATED, Verdict.PASS]
    worst = min(given_verdicts, key=order.index)
    assert decide([result(verdict) for verdict in given_verdicts]).status is STATUS_OF_VERDICT[worst]


@given(st.lists(verdicts), st.lists(verdicts))
def test_what_does_not_gate_changes_nothing(informing: list[Verdict], gating: list[Verdict]) -> None:
    gate = [result(verdict) for verdict in gating]
    extra = [result(verdict, weight=0) for verdict in informing] + [result(v, enabled=False) for v in informing]
    assert decide(gate + extra) == decide(gate)


@given(st.lists(verdicts))
def test_only_a_full_set_of_passes_passes(given_verdicts: list[Verdict]) -> None:
    decision = decide([result(verdict) for verdict in given_verdicts])
    passed = bool(given_verdicts) and set(given_verdicts) == {Verdict.PASS}
    assert (decision.status is Status.PASSED) == passed


def test_nothing_that_gates_is_never_a_pass() -> None:
    assert decide([]).status is Status.NOT_EVALUATED
    assert decide([result(Verdict.PASS, weight=0)]).status is Status.NOT_EVALUATED


def test_the_score_is_the_mean_by_weight_and_unknown_stays_unknown() -> None:
    graded = [result(Verdict.PASS, weight=3), result(Verdict.FAIL, weight=1, score=0.5)]
    assert decide(graded).score == pytest.approx(0.875)
    assert decide([*graded, result(Verdict.ERROR)]).score is None
    assert decide([*graded, result(Verdict.NOT_EVALUATED)]).score is None


def test_every_status_and_cause_has_its_row() -> None:
    assert set(OUTCOMES) == set(Status)
    assert set(CAUSES) == set(Cause)
    assert set(STATUS_OF_VERDICT) == set(Verdict)


def test_errors_stay_in_the_denominator_of_the_pass_rate() -> None:
    counts = {Status.PASSED: 1, Status.FAILED: 1, Status.ERROR: 2, Status.NOT_EVALUATED: 5, Status.SKIPPED: 7}
    assert pass_rate(counts) == 0.25
    assert pass_rate({Status.SKIPPED: 3, Status.NOT_EVALUATED: 1}) is None


@pytest.mark.parametrize(("stop", "status"), [(Stop.COST, Status.FAILED), (Stop.TURNS, Status.PASSED)])
def test_a_cap_on_cost_makes_a_pass_a_fail_and_a_cap_on_turns_does_not(stop: Stop, status: Status) -> None:
    decision = decide([result(Verdict.PASS)], stop)
    assert (decision.status, "max_usd" in decision.reason) == (status, stop is Stop.COST)


@pytest.mark.parametrize("stop", list(Stop))
def test_the_cap_is_told_beside_a_fail_and_never_hides_an_error(stop: Stop) -> None:
    assert stop in decide([result(Verdict.FAIL)], stop).reason
    assert decide([result(Verdict.ERROR)], stop).status is Status.ERROR
