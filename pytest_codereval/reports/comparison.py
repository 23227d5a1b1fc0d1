"""Two runs, or two variants of one, set against each other trial by trial."""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
from collections.abc import Sequence

from ..judging.outcomes import OUTCOMES, Status
from .run_report import Figures, TrialReport, figures

RESAMPLES = 2000
FEWEST_TASKS = 2
"""Tasks without which a mean over tasks has no interval."""


@dataclasses.dataclass(frozen=True)
class Pair:
    """The trials of one case on both sides."""

    before: TrialReport
    after: TrialReport

    @property
    def name(self) -> str:
        """`task[row]`, with `-r2` for the second repeat."""
        task, row, repeat = self.before.case
        label = "-".join([*([row] if row else []), *([f"r{repeat}"] if self.before.summary["repeats"] > 1 else [])])
        return f"{task}[{label}]" if label else task


@dataclasses.dataclass(frozen=True)
class Comparison:
    """`before` and `after` are over all trials of each side, the rest over the pairs that both sides measured.

    `better` and `worse` are pairs of which one side passed. `p_value` is the chance of a split of these at least as
    uneven if neither side were better: McNemar's exact test, two-sided; None without such pairs. `difference` is that
    of the pass rates of the pairs, after minus before, and `interval` its 95 % interval over tasks; None where there
    are too few tasks. `lost` names trials that passed before and were not measured after, for want of a partner or of
    a verdict. `only_before` and `only_after` name trials that have no partner.
    """

    before: Figures
    after: Figures
    pairs: tuple[Pair, ...]
    better: tuple[Pair, ...]
    worse: tuple[Pair, ...]
    p_value: float | None
    difference: float | None
    interval: tuple[float, float] | None
    lost: tuple[str, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]


def compare(before: Sequence[TrialReport], after: Sequence[TrialReport]) -> Comparison:
    """Pair the trials by task, row and repeat. Where a case ran more than once, its last record counts."""
    ours, theirs = {trial.case: trial for trial in before}, {trial.case: trial for trial in after}
    both = [Pair(ours[case], theirs[case]) for case in sorted(ours.keys() & theirs.keys())]
    pairs = tuple(pair for pair in both if _measured(pair.before) and _measured(pair.after))
    better = tuple(pair for pair in pairs if not _passed(pair.before) and _passed(pair.after))
    worse = tuple(pair for pair in pairs if _passed(pair.before) and not _passed(pair.after))
    return Comparison(
        before=figures(list(ours.values())),
        after=figures(list(theirs.values())),
        pairs=pairs,
        better=better,
        worse=worse,
        p_value=mcnemar(len(better), len(worse)),
        difference=(len(better) - len(worse)) / len(pairs) if pairs else None,
        interval=_interval(pairs),
        lost=tuple(
            sorted(
                trial.summary["trial"]
                for case, trial in ours.items()
                if _passed(trial) and (case not in theirs or not _measured(theirs[case]))
            )
        ),
        only_before=tuple(sorted(trial.summary["trial"] for case, trial in ours.items() if case not in theirs)),
        only_after=tuple(sorted(trial.summary["trial"] for case, trial in theirs.items() if case not in ours)),
    )


def mcnemar(better: int, worse: int) -> float | None:
    """The two-sided p-value of the exact test of McNemar (1947): a binomial test of better + worse at one half."""
    discordant = better + worse
    if not discordant:
        return None
    tail = sum(math.comb(discordant, number) for number in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**discordant))


def _interval(pairs: Sequence[Pair]) -> tuple[float, float] | None:
    """The 95 % percentile bootstrap interval of the mean difference, resampled by task, as rows of one task are alike.

    Efron and Tibshirani, "An Introduction to the Bootstrap" (1993), section 13.3. The resamples are always the same.
    """
    by_task: dict[str, list[int]] = {}
    for pair in pairs:
        by_task.setdefault(pair.before.case[0], []).append(_passed(pair.after) - _passed(pair.before))
    tasks = list(by_task.values())
    if len(tasks) < FEWEST_TASKS:
        return None
    chance = random.Random(0)
    means = sorted(_mean_of(chance.choices(tasks, k=len(tasks))) for _ in range(RESAMPLES))
    return means[round(0.025 * RESAMPLES)], means[round(0.975 * RESAMPLES) - 1]


def _mean_of(tasks: Sequence[Sequence[int]]) -> float:
    return statistics.fmean(value for task in tasks for value in task)


def _measured(trial: TrialReport) -> bool:
    return OUTCOMES[trial.status].in_rate


def _passed(trial: TrialReport) -> bool:
    return trial.status is Status.PASSED
