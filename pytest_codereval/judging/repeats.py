"""The repeats of one row taken together: their pass rate with its interval, and the gate over them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..task.repeat_models import target_of
from .checks import Check, GateStatus, checks_of, decided, missing_trials
from .metrics import pass_all, pass_at, wilson
from .outcomes import Status


@dataclasses.dataclass(frozen=True)
class GroupResult:
    """The repeats of one row of one task and variant.

    `passed` of `measured` trials passed, those in error being measured ones. `interval` is the 95 % interval of the
    pass rate by Wilson. `gate` is None without targets.
    """

    statuses: Mapping[str, int]
    expected: int
    passed: int
    measured: int
    interval: tuple[float, float]
    checks: tuple[Check, ...]
    gate: GateStatus | None
    reason: str

    @property
    def pass_rate(self) -> float | None:
        """passed / measured, None when nothing was measured."""
        return self.passed / self.measured if self.measured else None

    def as_record(self) -> dict[str, object]:
        """The result as plain data."""
        return {
            "trials": {"expected": self.expected} | dict(self.statuses),
            "passed": self.passed,
            "measured": self.measured,
            "pass_rate": self.pass_rate,
            "wilson_95": list(self.interval),
            "gate": self.gate,
            "reason": self.reason,
            "checks": [check.as_record() for check in self.checks],
        }


def judge_group(summaries: Sequence[Mapping[str, Any]]) -> GroupResult:
    """Take together the summaries of the repeats of one row, at least one, each trial once.

    The gate is NOT_JUDGED when fewer repeats ran than there are, NOT_EVALUATED when one of them was not evaluated, else
    PASSED when every target is reached. A trial in error counts as one that did not pass.
    """
    statuses = Counter(str(summary["status"]) for summary in summaries)
    expected = max(summary["repeats"] for summary in summaries)
    passed = statuses[Status.PASSED]
    measured = passed + statuses[Status.FAILED] + statuses[Status.ERROR]
    targets = summaries[0]["targets"]
    ran = len(summaries) - statuses[Status.SKIPPED]
    missing = missing_trials(ran, expected, statuses[Status.SKIPPED])
    checks: tuple[Check, ...] = ()
    gate: GateStatus | None = None
    reason = ""
    if targets and missing:
        gate, reason = GateStatus.NOT_JUDGED, missing
    elif targets and measured < ran:
        gate, reason = GateStatus.NOT_EVALUATED, f"{ran - measured} of {ran} trials were not evaluated"
    elif targets:
        checks = checks_of(targets, {name: _metric(name, measured, passed) for name in targets})
        gate, reason = decided(checks, "target")
    return GroupResult(dict(statuses), expected, passed, measured, wilson(passed, measured), checks, gate, reason)


def _metric(name: str, n: int, c: int) -> float:
    kind, k = target_of(name)
    if k is None:
        return c / n
    return pass_at(n, c, k) if kind == "@" else pass_all(n, c, k)
