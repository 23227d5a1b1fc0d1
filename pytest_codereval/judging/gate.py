"""The rule that turns verdicts into a trial's status, and the weighted score that only informs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..criteria.contract import CriterionResult, Verdict
from .early_stop import Reason, share
from .metrics import reaches
from .outcomes import STATUS_OF_VERDICT, VERDICT_ORDER, Status
from .strictness import TYPE as STRICTNESS

if TYPE_CHECKING:
    from ..agents.limits import Stop


@dataclasses.dataclass(frozen=True)
class Decision:
    """A trial's status with its reason in one line. `score` lies in 0..1, None when it is not known."""

    status: Status
    reason: str
    score: float | None


def decide(
    results: Sequence[CriterionResult], stopped: Stop | None = None, early: Mapping[str, Any] | None = None
) -> Decision:
    """Apply the gate: every gating criterion must pass; error beats fail beats not_evaluated beats pass.

    Without any gating criterion nothing was judged, which is never a pass. `stopped` is the cap at which the agent was
    stopped: with one on tokens or cost the trial failed unless a criterion could not be judged. `early` is what the
    record says of an early stop: then the `selected` criteria decide.
    """
    gating = [result for result in results if result.gating]
    decision = _decide(gating) if early is None else _decide_early(gating, early)
    if stopped is None or decision.status is Status.ERROR:
        return decision
    if stopped.forces_fail:
        return Decision(Status.FAILED, f"the agent went over {stopped}; {decision.reason}", decision.score)
    if decision.status is Status.PASSED:
        return decision
    return dataclasses.replace(decision, reason=f"{decision.reason}; the agent was stopped at {stopped}")


def selected(results: Sequence[CriterionResult], early: Mapping[str, Any] | None) -> tuple[CriterionResult, ...]:
    """The criteria that decide a trial: the gating ones, and of a run that armed criteria stopped only those.

    Tools that must answer every call decide always. When a criterion that was armed is not there any more, all decide;
    so they do where a run was stopped because the armed ones could not pass, and then they did. Where the first fail
    stopped the run, that and what cannot be judged decide: what all together would give, too.
    """
    gating = tuple(result for result in results if result.gating)
    return _after_early_stop(gating, early)[0] if early is not None else gating


def marked(results: Sequence[CriterionResult], early: Mapping[str, Any] | None) -> tuple[CriterionResult, ...]:
    """The results, with a mark on the gating ones that do not decide."""
    deciding = {result.index for result in selected(results, early)}
    return tuple(
        dataclasses.replace(result, advisory=result.gating and result.index not in deciding) for result in results
    )


def _armed(gating: Sequence[CriterionResult], early: Mapping[str, Any]) -> list[CriterionResult]:
    """The criteria that were armed, none when one of them is missing."""
    found = [result for result in gating if result.name in early["armed"]]
    return found if len(found) == len(early["armed"]) else []


def _decide_early(gating: Sequence[CriterionResult], early: Mapping[str, Any]) -> Decision:
    _, decision = _after_early_stop(gating, early)
    reason = f"{decision.reason}; the run was stopped early: {early['message']}"
    return Decision(decision.status, reason, weighted_score(gating))


def _after_early_stop(
    gating: Sequence[CriterionResult], early: Mapping[str, Any]
) -> tuple[tuple[CriterionResult, ...], Decision]:
    """The criteria that decide, see `selected`, and what they decide: armed ones by weight, else all must pass."""
    reason, every = Reason(early["reason"]), tuple(gating)
    strict = [result for result in gating if result.type == STRICTNESS]
    if reason is Reason.DECIDED:
        by = early["criterion"]["name"]
        fatal = any(result.name == by and result.verdict is Verdict.FAIL for result in gating)
        first = tuple(r for r in gating if r.name == by or r.verdict is Verdict.ERROR or r in strict)
        chosen = first if fatal else every
        return chosen, _decide(chosen)
    armed = _armed(gating, early)
    decision = _by_weight(armed, [r for r in strict if r.verdict is not Verdict.PASS], early["gate_threshold"])
    if not armed or (reason.was_to_fail and decision.status is Status.PASSED):
        return every, _decide(every)
    return tuple(result for result in gating if result in armed or result in strict), decision


def _by_weight(armed: Sequence[CriterionResult], guards: Sequence[CriterionResult], threshold: float) -> Decision:
    unknown = [result for result in (*armed, *guards) if result.verdict is Verdict.ERROR]
    if unknown or guards:
        return _decide([*armed, *guards])
    passed = [result for result in armed if result.verdict is Verdict.PASS]
    failed = [result for result in armed if result.verdict is Verdict.FAIL]
    if not reaches(1 - share(failed, armed), threshold) or len(passed) == len(armed):
        return _decide(armed, "armed criteria")
    if len(passed) + len(failed) < len(armed):
        return _decide([result for result in armed if result not in failed], "armed criteria")
    reached = f"the armed criteria reach {share(passed, armed):.2f} of {threshold:g}"
    return Decision(Status.PASSED, f"{reached}; failed: {', '.join(result.name for result in failed)}", None)


def _decide(gating: Sequence[CriterionResult], what: str = "criteria") -> Decision:
    if not gating:
        return Decision(Status.NOT_EVALUATED, "no criterion gates this task", None)
    verdict = next(verdict for verdict in VERDICT_ORDER if any(result.verdict is verdict for result in gating))
    concerned = [result for result in gating if result.verdict is verdict]
    return Decision(
        STATUS_OF_VERDICT[verdict], _reason(verdict, concerned, f"{len(gating)} {what}"), weighted_score(gating)
    )


def weighted_score(gating: Sequence[CriterionResult]) -> float | None:
    """Mean of the scores by weight: sum(score * weight) / sum(weight). None when one of them is not known."""
    scores = [(result.score, result.weight) for result in gating]
    total = sum(weight for _, weight in scores)
    if not total or any(score is None for score, _ in scores):
        return None
    return sum(score * weight for score, weight in scores if score is not None) / total


def _reason(verdict: Verdict, concerned: Sequence[CriterionResult], of: str) -> str:
    names = ", ".join(result.name for result in concerned)
    match verdict:
        case Verdict.PASS:
            return f"{len(concerned)} of {of} passed"
        case Verdict.FAIL:
            return f"{len(concerned)} of {of} failed: {names}"
        case Verdict.NOT_EVALUATED:
            return f"{len(concerned)} of {of} not evaluated: {names}"
        case Verdict.ERROR:
            return f"{len(concerned)} of {of} could not be judged: {names}"
