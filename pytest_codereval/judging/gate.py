"""The rule that turns verdicts into a trial's status, and the weighted score that only informs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..criteria.contract import CriterionResult, Verdict
from .outcomes import STATUS_OF_VERDICT, VERDICT_ORDER, Status

if TYPE_CHECKING:
    from ..agents.limits import Stop


@dataclasses.dataclass(frozen=True)
class Decision:
    """A trial's status with its reason in one line. `score` lies in 0..1, None when it is not known."""

    status: Status
    reason: str
    score: float | None


def decide(results: Sequence[CriterionResult], stopped: Stop | None = None) -> Decision:
    """Apply the gate: every gating criterion must pass; error beats fail beats not_evaluated beats pass.

    Without any gating criterion nothing was judged, which is never a pass. `stopped` is the cap at which the agent was
    stopped: with one on tokens or cost the trial failed unless a criterion could not be judged.
    """
    decision = _decide([result for result in results if result.gating])
    if stopped is None or decision.status is Status.ERROR:
        return decision
    if stopped.forces_fail:
        return Decision(Status.FAILED, f"the agent went over {stopped}; {decision.reason}", decision.score)
    if decision.status is Status.PASSED:
        return decision
    return dataclasses.replace(decision, reason=f"{decision.reason}; the agent was stopped at {stopped}")


def _decide(gating: Sequence[CriterionResult]) -> Decision:
    if not gating:
        return Decision(Status.NOT_EVALUATED, "no criterion gates this task", None)
    verdict = next(verdict for verdict in VERDICT_ORDER if any(result.verdict is verdict for result in gating))
    concerned = [result for result in gating if result.verdict is verdict]
    return Decision(STATUS_OF_VERDICT[verdict], _reason(verdict, concerned, len(gating)), weighted_score(gating))


def weighted_score(gating: Sequence[CriterionResult]) -> float | None:
    """Mean of the scores by weight: sum(score * weight) / sum(weight). None when one of them is not known."""
    scores = [(result.score, result.weight) for result in gating]
    total = sum(weight for _, weight in scores)
    if not total or any(score is None for score, _ in scores):
        return None
    return sum(score * weight for score, weight in scores if score is not None) / total


def _reason(verdict: Verdict, concerned: Sequence[CriterionResult], gating: int) -> str:
    names = ", ".join(result.name for result in concerned)
    match verdict:
        case Verdict.PASS:
            return f"{gating} of {gating} criteria passed"
        case Verdict.FAIL:
            return f"{len(concerned)} of {gating} criteria failed: {names}"
        case Verdict.NOT_EVALUATED:
            return f"{len(concerned)} of {gating} criteria not evaluated: {names}"
        case Verdict.ERROR:
            return f"{len(concerned)} of {gating} criteria could not be judged: {names}"
