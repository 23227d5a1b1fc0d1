"""The contract of live verdicts, held by every type that gives them; and the suite finds what breaks it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from pytest_codereval.criteria import conformance, registry
from pytest_codereval.criteria.contract import Evidence, Judgement, Verdict
from pytest_codereval.criteria.registry import CriterionKind
from pytest_codereval.task.criterion import Criterion, StopEarly

CASES = conformance.BUILT_IN


def of_type(case: conformance.LiveCase) -> list[conformance.LiveCase]:
    return [other for other in CASES if other.criterion["type"] == case.criterion["type"]]


@pytest.mark.parametrize("name", conformance.CHECKS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_live_verdicts_keep_their_contract(name: str, case: conformance.LiveCase) -> None:
    conformance.run(name, case, of_type(case))


@pytest.mark.parametrize("name", registry.types())
def test_a_type_with_live_verdicts_has_cases_for_each(name: str) -> None:
    if registry.live(name) is not None:
        conformance.prove_complete(name, CASES)
        assert "stop_early" in registry.kind_of(name).model.model_fields
    else:
        assert "stop_early" not in registry.kind_of(name).model.model_fields


# -- the suite itself


class Knocked(Criterion):
    type: Literal["knocked"] = "knocked"
    stop_early: StopEarly | None = None


def knocks(evidence: Evidence) -> list[str]:
    calls = evidence.trajectory.tool_calls if evidence.trajectory else ()
    return [str(call.parameters.get("command")) for call in calls if call.ended is not None]


def check(criterion: Knocked, evidence: Evidence) -> Judgement:
    return Judgement(float("knock" in knocks(evidence)))


def look(criterion: Knocked, evidence: Evidence) -> Verdict | None:
    return Verdict.PASS if "knock" in knocks(evidence) else None


ONE: Any = {"type": "knocked"}
KNOCK = conformance.tool("Bash", command="knock")
SCRATCH = conformance.tool("Bash", command="scratch")
OWN = [
    conformance.LiveCase("it knocks", ONE, (*SCRATCH, *KNOCK), "pass"),
    conformance.LiveCase("it scratches", ONE, SCRATCH, None),
]


@pytest.fixture
def use() -> Iterator[Callable[..., None]]:
    undo: list[Callable[[], None]] = []

    def take(**changes: Any) -> None:
        kind = CriterionKind(Knocked, check, look, lambda criterion: [Verdict.PASS])
        undo.append(registry.use_kinds([dataclasses.replace(kind, **changes)]))

    yield take
    while undo:
        undo.pop()()


def broken(case: conformance.LiveCase = OWN[0]) -> list[str]:
    """The names of the checks that fail."""
    found = []
    for name in conformance.CHECKS:
        try:
            conformance.run(name, case, OWN)
        except AssertionError:
            found.append(name)
    return found


def test_a_type_of_a_plugin_is_held_to_the_contract(use: Callable[..., None]) -> None:
    use()
    assert [broken(case) for case in OWN] == [[], []]
    conformance.prove_complete("knocked", OWN)


def test_what_breaks_the_contract_is_found(use: Callable[..., None]) -> None:
    turns = itertools.cycle([Verdict.PASS, Verdict.FAIL])
    use(live_verdict=lambda criterion, evidence: next(turns))
    assert "deterministic" in broken()

    def last(criterion: Knocked, evidence: Evidence) -> Verdict | None:
        return Verdict.PASS if knocks(evidence)[-1:] == ["knock"] else None

    use(live_verdict=last)
    assert broken() == ["monotone"]

    def begun(criterion: Knocked, evidence: Evidence) -> Verdict | None:
        return Verdict.PASS if evidence.trajectory and evidence.trajectory.tool_calls else None

    use(live_verdict=begun)
    assert "final" in broken()
    use(live_polarities=lambda criterion: [Verdict.FAIL])
    assert broken() == ["claimed"]


def test_a_verdict_that_no_case_reaches_and_a_type_without_cases_are_found(use: Callable[..., None]) -> None:
    use(live_polarities=None)
    with pytest.raises(AssertionError, match="no case of knocked ends in the live verdict fail"):
        conformance.prove_complete("knocked", OWN)
    with pytest.raises(AssertionError, match="no case of knocked stays open"):
        use()
        conformance.prove_complete("knocked", OWN[:1])
    with pytest.raises(AssertionError, match="knocked gives live verdicts and has no case"):
        conformance.prove_complete("knocked", CASES)
