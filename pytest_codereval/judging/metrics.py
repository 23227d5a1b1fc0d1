"""Statistics over trials: of scores, of labels, and of repeated attempts."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

NORMAL_95 = 1.959963984540054
"""The 97.5 % quantile of the standard normal distribution."""

ERROR_LABEL = "(error)"
"""The observed label of a trial in error."""

TOLERANCE = 1e-9
"""By how much a metric may miss its minimum through rounding alone."""


def reaches(actual: float, minimum: float) -> bool:
    """Whether `actual` is at least `minimum`, rounding aside."""
    return actual >= minimum - TOLERANCE


def score_statistics(scores: Sequence[float]) -> dict[str, float]:
    """Mean, median, std (of the population: divided by n), min and max; each 0 where there is no score."""
    if not scores:
        return dict.fromkeys(("mean", "median", "std", "min", "max"), 0.0)
    return {
        "mean": statistics.fmean(scores),
        "median": float(statistics.median(scores)),
        "std": statistics.pstdev(scores),
        "min": min(scores),
        "max": max(scores),
    }


@dataclasses.dataclass(frozen=True)
class Classification:
    """How often each expected label was observed as which label. `pairs` is keyed by (expected, observed)."""

    pairs: Mapping[tuple[str, str], int]

    @property
    def labels(self) -> list[str]:
        """Every label that was expected or observed, sorted."""
        return sorted({label for pair in self.pairs for label in pair})

    @property
    def classes(self) -> list[str]:
        """The labels without `(error)`, which nothing can be classified as; it lowers the recall of the others."""
        return [label for label, number in self.support.items() if label != ERROR_LABEL or number]

    @property
    def support(self) -> dict[str, int]:
        """How many trials expect each label, in the order of `labels`."""
        found: Counter[str] = Counter()
        for (expected, _), number in self.pairs.items():
            found[expected] += number
        return {label: found[label] for label in self.labels}

    @property
    def confusion(self) -> dict[str, dict[str, int]]:
        """Expected label -> observed label -> number, for the pairs that occur."""
        table: dict[str, dict[str, int]] = {}
        for (expected, observed), number in sorted(self.pairs.items()):
            table.setdefault(expected, {})[observed] = number
        return table

    def metrics(self) -> dict[str, float]:
        """Accuracy, precision, recall and F1 of each label, and F1 over all labels.

        With TP, FP and FN of a label: precision = TP / (TP + FP), recall = TP / (TP + FN) and
        F1 = 2 TP / (2 TP + FP + FN). macro_f1 is the mean of F1 over `classes`, weighted_f1 the mean weighted by
        support, micro_f1 is F1 of the sums of TP, FP and FN, which is the accuracy where each trial has one label.
        0 where a denominator is 0. As scikit-learn's precision_recall_fscore_support with zero_division=0 over every
        label that occurs, for macro_f1 over `classes`.
        """
        total = sum(self.pairs.values())
        support = self.support
        observed: Counter[str] = Counter()
        for (_, label), number in self.pairs.items():
            observed[label] += number
        hits = {label: self.pairs.get((label, label), 0) for label in support}
        f1 = {label: _ratio(2 * hits[label], observed[label] + support[label]) for label in support}
        found = {
            "accuracy": _ratio(sum(hits.values()), total),
            "macro_f1": statistics.fmean(f1[label] for label in self.classes) if self.classes else 0.0,
            "weighted_f1": math.fsum(f1[label] * support[label] for label in support) / total if total else 0.0,
            "micro_f1": _ratio(2 * sum(hits.values()), 2 * total),
        }
        for label in support:
            found[f"precision.{label}"] = _ratio(hits[label], observed[label])
            found[f"recall.{label}"] = _ratio(hits[label], support[label])
            found[f"f1.{label}"] = f1[label]
        return found


def pass_at(n: int, c: int, k: int) -> float:
    """The chance that at least one of k attempts passes, from c passes in n >= k attempts: 1 - C(n-c, k) / C(n, k).

    The unbiased estimator of Chen et al., "Evaluating Large Language Models Trained on Code" (2021), section 2.1.
    """
    return (math.comb(n, k) - math.comb(n - c, k)) / math.comb(n, k)


def pass_all(n: int, c: int, k: int) -> float:
    """The chance that all of k attempts pass (pass^k), from c passes in n >= k attempts: C(c, k) / C(n, k).

    The estimator of Yao et al., "tau-bench" (2024), section 3.
    """
    return math.comb(c, k) / math.comb(n, k)


def wilson(passed: int, n: int) -> tuple[float, float]:
    """The 95 % interval of a rate by Wilson, "Probable inference" (1927); (0, 1) where nothing was measured."""
    if n == 0:
        return 0.0, 1.0
    rate, z2 = passed / n, NORMAL_95**2
    centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
    half = NORMAL_95 / (1 + z2 / n) * math.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
