"""Gates over several trials as text: a headline, and a table of metrics with the confusion of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..judging.checks import Check, GateStatus

if TYPE_CHECKING:
    from ..judging.metrics import Classification
    from ..judging.repeats import GroupResult
    from ..judging.suites import CriterionAggregate, SuiteResult

SHOWN_CHECKS = 3
SHOWN_LABELS = 30
SHOWN_NAME = 40
STATISTICS = ("mean", "median", "std", "min", "max", "completion_rate")
OVERALL = ("accuracy", "macro_f1", "weighted_f1", "micro_f1")


def suite_headline(result: SuiteResult) -> str:
    """One line: what the gate came to, with the first of the metrics that missed."""
    if result.gate is not GateStatus.MISSED:
        return result.reason
    missed = [f"{criterion.name}: {_said(criterion, check)}" for criterion, check in result.checks if not check.met]
    return f"{result.reason}: {_listed(missed)}"


def group_headline(result: GroupResult) -> str:
    """One line: passes, rate with interval, and each target."""
    said = rate_text(result)
    if result.gate in (GateStatus.NOT_JUDGED, GateStatus.NOT_EVALUATED):
        return f"{result.reason}; {said}"
    return "; ".join([said, *map(str, result.checks)])


def rate_text(result: GroupResult) -> str:
    """`4 of 5 passed (80.0 %, 95 % interval 37.6 % to 96.4 %)`."""
    if result.pass_rate is None:
        return "nothing measured"
    low, high = result.interval
    return (
        f"{result.passed} of {result.measured} passed ({result.pass_rate:.1%}, 95 % interval {low:.1%} to {high:.1%})"
    )


def suite_table(result: SuiteResult) -> str:
    """Trials by status, then each criterion with its metrics, checks and confusion."""
    counts = ", ".join(f"{number} {status}" for status, number in sorted(result.statuses.items()))
    cut = f"; {result.stopped_early} stopped early, judged on what there was by then" if result.stopped_early else ""
    lines = [f"  trials: {counts} (of {result.expected}){cut}"]
    for criterion in result.criteria:
        lines += _criterion_lines(criterion)
    return "\n".join(lines)


def group_table(result: GroupResult) -> str:
    """Trials by status, then each target."""
    counts = ", ".join(f"{number} {status}" for status, number in sorted(result.statuses.items()))
    return "\n".join([f"  trials: {counts} (of {result.expected})", *_check_lines(result.checks)])


def _criterion_lines(criterion: CriterionAggregate) -> list[str]:
    beside = [f"{criterion.judged} judged", f"{criterion.errors} in error"]
    beside += [f"{criterion.not_evaluated} not evaluated"] if criterion.not_evaluated else []
    beside += [f"{criterion.off} switched off"] if criterion.off else []
    lines = [f"  {criterion.name}: {', '.join(beside)}"]
    if criterion.judged + criterion.errors:
        lines.append("    " + _metrics(criterion, STATISTICS))
    if criterion.classification is not None:
        lines.append("    " + _metrics(criterion, OVERALL))
        lines += _label_lines(criterion, criterion.classification)
    return [*lines, *_check_lines(criterion.checks, criterion)]


def _metrics(criterion: CriterionAggregate, names: Sequence[str]) -> str:
    return "  ".join(f"{name} {criterion.metrics[name]:.4g}" for name in names)


def _label_lines(criterion: CriterionAggregate, classification: Classification) -> list[str]:
    lines = []
    labels = classification.labels
    for label in labels[:SHOWN_LABELS]:
        numbers = [f"{name} {criterion.metrics[f'{name}.{label}']:.4g}" for name in ("precision", "recall", "f1")]
        seen = classification.confusion.get(label, {})
        observed = ", ".join(f"{other} {number}" for other, number in list(seen.items())[:SHOWN_LABELS])
        lines.append(
            f"    {label[:SHOWN_NAME]}: {'  '.join(numbers)}  support {classification.support[label]}"
            + (f"; observed as {observed}" if observed else "")
        )
    more = len(labels) - SHOWN_LABELS
    return [*lines, f"    +{more} more labels"] if more > 0 else lines


def _check_lines(checks: Sequence[Check], criterion: CriterionAggregate | None = None) -> list[str]:
    return [
        f"    {'ok  ' if check.met else 'MISS'} {_said(criterion, check) if criterion else check}" for check in checks
    ]


def _said(criterion: CriterionAggregate, check: Check) -> str:
    """The check, and why its metric is 0 where a label never came up."""
    _, _, label = check.metric.partition(".")
    classification = criterion.classification
    if label and classification is not None and not check.met and not classification.support.get(label):
        return f"{check} (no trial expects {label})"
    return str(check)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - SHOWN_CHECKS
    return "; ".join(texts[:SHOWN_CHECKS]) + (f"; +{more} more" if more > 0 else "")
