"""The trials of one suite (a task's rows and repeats, of one variant) taken together, and the gate over them.

A trial in error stays in every denominator: each of its criteria counts as score 0 and as observed label `(error)`.
What was not evaluated is counted as nothing, and keeps the gate from being passed.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from .checks import Check, GateStatus, checks_of, decided, missing_trials
from .metrics import ERROR_LABEL, Classification, score_statistics
from .outcomes import Status

NO_LABEL = "(none)"
"""The observed label of a criterion that was judged and found none."""

UNKNOWN_LABEL = "(unknown)"
"""The expected label of a trial in error whose criterion cannot tell it without judging."""

Summary = Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class CriterionAggregate:
    """One criterion over all trials. `classification` is None when it gives no labels.

    `judged` trials have a score, `errors` count as 0, `not_evaluated` and `off` (switched off) as nothing. `metrics`
    are those that `suite_thresholds` may name: `count` is `judged`, completion_rate = judged / (judged + errors).
    """

    index: int
    name: str
    type: str
    judged: int
    errors: int
    not_evaluated: int
    off: int
    metrics: Mapping[str, float]
    classification: Classification | None
    checks: tuple[Check, ...]

    def as_record(self) -> dict[str, object]:
        """The aggregate as plain data."""
        record = {name: getattr(self, name) for name in ("index", "name", "type", "judged", "errors")}
        record |= {"not_evaluated": self.not_evaluated, "switched_off": self.off, "metrics": dict(self.metrics)}
        if self.classification is not None:
            record |= {"support": self.classification.support, "confusion": self.classification.confusion}
        return record | {"checks": [check.as_record() for check in self.checks]}


@dataclasses.dataclass(frozen=True)
class SuiteResult:
    """A suite: how its trials ended, each criterion over them, and its gate, None when no threshold is set.

    `stopped_early` are the trials whose run was cut: their criteria were judged on what there was by then.
    """

    statuses: Mapping[str, int]
    expected: int
    stopped_early: int
    criteria: tuple[CriterionAggregate, ...]
    gate: GateStatus | None
    reason: str

    @property
    def checks(self) -> tuple[tuple[CriterionAggregate, Check], ...]:
        """Every check with its criterion."""
        return tuple((criterion, check) for criterion in self.criteria for check in criterion.checks)

    def as_record(self) -> dict[str, object]:
        """The result as plain data."""
        return {
            "trials": {"expected": self.expected} | dict(self.statuses),
            "stopped_early": self.stopped_early,
            "gate": self.gate,
            "reason": self.reason,
            "criteria": [criterion.as_record() for criterion in self.criteria],
        }


def judge_suite(summaries: Sequence[Summary]) -> SuiteResult:
    """Take together the summaries of the trials of one suite, at least one, each trial once.

    A summary says by `rows` and `repeats` how many trials there should be. The gate is NOT_JUDGED when fewer ran, else
    NOT_EVALUATED when one of them, or a criterion with thresholds in one, was not evaluated, else PASSED when every
    threshold of every criterion is reached.
    """
    statuses = Counter(str(summary["status"]) for summary in summaries)
    skipped = statuses[Status.SKIPPED]
    counted = [summary for summary in summaries if summary["status"] != Status.SKIPPED]
    expected = max(summary["rows"] * summary["repeats"] for summary in summaries)
    criteria = tuple(_aggregate(entries) for entries in _by_criterion(counted).values())
    gate, reason = _gate(criteria, statuses, missing_trials(len(counted), expected, skipped), counted)
    stopped = sum(bool(summary.get("early_stop")) for summary in counted)
    if gate is not None and stopped:
        reason += f"; {stopped} of {len(counted)} runs were stopped early"
    return SuiteResult(dict(statuses), expected, stopped, criteria, gate, reason)


def _by_criterion(summaries: Sequence[Summary]) -> dict[int, list[tuple[bool, Summary]]]:
    """The results of each criterion by its index, each with whether its trial is in error."""
    found: dict[int, list[tuple[bool, Summary]]] = {}
    for summary in summaries:
        in_error = summary["status"] == Status.ERROR
        for criterion in summary["criteria"]:
            found.setdefault(criterion["index"], []).append((in_error, criterion))
    return dict(sorted(found.items()))


def _aggregate(entries: Sequence[tuple[bool, Summary]]) -> CriterionAggregate:
    scores: list[float] = []
    pairs: Counter[tuple[str, str]] = Counter()
    judged = errors = not_evaluated = off = 0
    for in_error, result in entries:
        if _is_off(result):
            off += 1
            continue
        failed_to_judge = in_error or result["verdict"] == "error"
        if failed_to_judge:
            errors += 1
        elif result["score"] is None:
            not_evaluated += 1
            continue
        else:
            judged += 1
        scores.append(0.0 if failed_to_judge else result["score"])
        if (pair := _labels(result, failed_to_judge)) is not None:
            pairs[pair] += 1
    first = entries[0][1]
    classification = _classification(pairs)
    metrics = {"count": float(judged), **score_statistics(scores)}
    metrics["completion_rate"] = judged / (judged + errors) if judged + errors else 0.0
    metrics |= classification.metrics() if classification else {}
    minimums = {} if off == len(entries) else first["suite_thresholds"]
    return CriterionAggregate(
        index=first["index"],
        name=first["name"],
        type=first["type"],
        judged=judged,
        errors=errors,
        not_evaluated=not_evaluated,
        off=off,
        metrics=metrics,
        classification=classification,
        checks=checks_of(minimums, metrics),
    )


def _is_off(result: Summary) -> bool:
    """Whether the author switched the criterion off: it would gate by its weight and does not."""
    return result["verdict"] == "not_evaluated" and not result["gating"] and result["weight"] > 0


def _labels(result: Summary, failed_to_judge: bool) -> tuple[str, str] | None:
    """Expected and observed label; None for a criterion that gives none."""
    expected, observed = result["expected_label"], result["label"]
    if failed_to_judge:
        return (UNKNOWN_LABEL if expected is None else expected, ERROR_LABEL)
    if expected is None and observed is None:
        return None
    return (UNKNOWN_LABEL if expected is None else expected, NO_LABEL if observed is None else observed)


def _classification(pairs: Mapping[tuple[str, str], int]) -> Classification | None:
    """None when nothing but errors of unknown label was found: the criterion gives no labels."""
    return Classification(pairs) if any(pair != (UNKNOWN_LABEL, ERROR_LABEL) for pair in pairs) else None


def _gate(
    criteria: Sequence[CriterionAggregate], statuses: Mapping[str, int], missing: str | None, counted: Sequence[Summary]
) -> tuple[GateStatus | None, str]:
    checks = [check for criterion in criteria for check in criterion.checks]
    if not checks:
        return None, ""
    if missing:
        return GateStatus.NOT_JUDGED, missing
    left_out = statuses.get(Status.NOT_EVALUATED, 0)
    if left_out:
        return GateStatus.NOT_EVALUATED, f"{left_out} of {len(counted)} trials were not evaluated"
    unjudged = [criterion for criterion in criteria if criterion.checks and criterion.not_evaluated]
    if unjudged:
        said = ", ".join(f"{each.name} in {each.not_evaluated} trials" for each in unjudged)
        return GateStatus.NOT_EVALUATED, f"not evaluated: {said}"
    return decided(checks, "threshold")
