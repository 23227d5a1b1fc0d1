"""The checks by name. Each raises AssertionError, saying what the contract asks for and where it was broken."""

from __future__ import annotations

import copy
import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ...sandbox.workspace import Workspace
from ..contract import Verdict
from ..registry import kind_of, live
from .case import LiveCase

SHUFFLES = 3
"""Other orders of the events of one case that are tried."""

CONTINUATIONS = 2
"""Other cases whose events are tried behind those of one."""

Check = Callable[[LiveCase, Sequence[LiveCase], Workspace], None]
"""Takes the case, all cases of its type, and an empty workspace."""


def run(name: str, case: LiveCase, cases: Sequence[LiveCase] = ()) -> None:
    """Carry out the check `name` on one of `cases`. Raises AssertionError."""
    with tempfile.TemporaryDirectory() as root:
        CHECKS[name](case, cases, Workspace(Path(root).resolve()))


def prove_complete(type_name: str, cases: Sequence[LiveCase]) -> None:
    """Raise AssertionError unless the cases of this type reach every verdict that it may give, and stay open once."""
    own = [case for case in cases if case.criterion["type"] == type_name]
    assert own, f"{type_name} gives live verdicts and has no case: add LiveCases"
    claimed = {verdict for case in own for verdict in _claimed(case)}
    reached = {case.verdict for case in own}
    missing = sorted(verdict.value for verdict in claimed if verdict.value not in reached)
    assert not missing, f"no case of {type_name} ends in the live verdict {' or '.join(missing)}, which it claims"
    assert None in reached, f"no case of {type_name} stays open"


def check_verdict(case: LiveCase, cases: Sequence[LiveCase], workspace: Workspace) -> None:
    """After all events the verdict is the one that the case names."""
    found = _verdicts(case, workspace)[-1]
    assert found == (Verdict(case.verdict) if case.verdict else None), f"{case}: expected {case.verdict}, got {found}"


def check_deterministic(case: LiveCase, cases: Sequence[LiveCase], workspace: Workspace) -> None:
    """The same evidence gives the same verdict, asked again and asked anew, and is left as it was."""
    look, model = live(case.criterion["type"]), case.model()
    assert look is not None, f"{case}: its type has no live_verdict"
    for length in range(len(case.events) + 1):
        evidence = case.evidence(case.events[:length], workspace)
        before = copy.deepcopy((evidence.trajectory, evidence.invocations, model))
        said = [look(model, evidence) for _ in range(2)]
        said.append(look(case.model(), case.evidence(case.events[:length], workspace)))
        assert len(set(said)) == 1, f"{case}: after {length} events one evidence gave {said}"
        after = (evidence.trajectory, evidence.invocations, model)
        assert before == after, f"{case}: the live verdict changed what it looked at"


def check_monotone(case: LiveCase, cases: Sequence[LiveCase], workspace: Workspace) -> None:
    """Once there is a verdict it stays, in the order of the case, in others, and whatever comes after."""
    for variation in _variations(case, cases):
        said = _verdicts(variation, workspace)
        first = next((place for place, verdict in enumerate(said) if verdict is not None), len(said))
        assert len(set(said[first:])) <= 1, f"{case}: the verdicts after each event were {said}{_events(variation)}"


def check_claimed(case: LiveCase, cases: Sequence[LiveCase], workspace: Workspace) -> None:
    """No verdict comes that `live_polarities` does not claim."""
    claimed = {None, *_claimed(case)}
    for variation in (case, *_continuations(case, cases)):
        said = set(_verdicts(variation, workspace))
        assert said <= claimed, f"{case}: claims {claimed}, gave {said}"


def check_final(case: LiveCase, cases: Sequence[LiveCase], workspace: Workspace) -> None:
    """Where there is a live verdict, the check gives the same one, then and after every further event."""
    check, model = kind_of(case.criterion["type"]).check, case.model()
    threshold = getattr(model, "similarity_threshold", model.pass_threshold)
    for variation in _variations(case, cases):
        for length, verdict in enumerate(_verdicts(variation, workspace)):
            if verdict is None:
                continue
            score = check(model, variation.evidence(variation.events[:length], workspace)).score
            final = Verdict.PASS if score >= threshold else Verdict.FAIL
            what = f"{case}: after {length} events the live verdict is {verdict}, the check gives {score}"
            assert final is verdict, what + _events(variation)


def _claimed(case: LiveCase) -> frozenset[Verdict]:
    polarities = kind_of(case.criterion["type"]).live_polarities
    return frozenset((Verdict.PASS, Verdict.FAIL)) if polarities is None else frozenset(polarities(case.model()))


def _verdicts(case: LiveCase, workspace: Workspace) -> list[Verdict | None]:
    """The live verdict before the first event and after each."""
    look, model = live(case.criterion["type"]), case.model()
    assert look is not None, f"{case}: its type has no live_verdict"
    lengths = range(len(case.events) + 1)
    return [look(model, case.evidence(case.events[:length], workspace)) for length in lengths]


def _variations(case: LiveCase, cases: Sequence[LiveCase]) -> list[LiveCase]:
    """The case itself, its events in other orders, and with the events of some other cases behind them."""
    return [case, *map(case.shuffled, range(SHUFFLES)), *_continuations(case, cases)]


def _continuations(case: LiveCase, cases: Sequence[LiveCase]) -> list[LiveCase]:
    others = [other for other in cases if other is not case and other.events != case.events]
    chosen = random.Random(str(case)).sample(others, min(CONTINUATIONS, len(others)))
    return [case.continued(other) for other in chosen]


def _events(case: LiveCase) -> str:
    return "".join(f"\n  {event!r:.300}" for event in case.events)


CHECKS: dict[str, Check] = {
    function.__name__.removeprefix("check_"): function
    for function in (check_verdict, check_deterministic, check_monotone, check_claimed, check_final)
}
