"""What a gate over several trials comes to: minimums that metrics must reach."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence

from .metrics import reaches


class GateStatus(enum.StrEnum):
    """How a gate over several trials ended.

    NOT_EVALUATED: trials were not evaluated, so nothing can be said. NOT_JUDGED: not all trials of it ran, by the
    user's choice or because the session stopped.
    """

    PASSED = "passed"
    MISSED = "missed"
    NOT_EVALUATED = "not_evaluated"
    NOT_JUDGED = "not_judged"


@dataclasses.dataclass(frozen=True)
class Check:
    """One metric against its minimum."""

    metric: str
    minimum: float
    actual: float

    @property
    def met(self) -> bool:
        return reaches(self.actual, self.minimum)

    def __str__(self) -> str:
        return f"{self.metric} {self.actual:.4g} {'>=' if self.met else '<'} {self.minimum:g}"

    def as_record(self) -> dict[str, object]:
        """The check as plain data."""
        return {"metric": self.metric, "minimum": self.minimum, "actual": self.actual, "met": self.met}


def checks_of(minimums: Mapping[str, float], metrics: Mapping[str, float]) -> tuple[Check, ...]:
    """Each minimum with its metric. A metric of a label that no trial has is 0: its denominator is."""
    return tuple(Check(name, minimum, metrics.get(name, 0.0)) for name, minimum in minimums.items())


def missing_trials(ran: int, expected: int, skipped: int) -> str | None:
    """Why a gate is not judged, or None when all its trials ran."""
    if ran >= expected:
        return None
    if skipped >= expected:
        return f"all {expected} trials were skipped"
    said = f"{ran} of {expected} trials ran"
    return f"{said}, {skipped} were skipped" if skipped else said


def decided(checks: Sequence[Check], what: str) -> tuple[GateStatus, str]:
    """PASSED when every check is met, else MISSED, with the reason in a few words; `what` names one check."""
    missed = sum(not check.met for check in checks)
    plural = what if len(checks) == 1 else f"{what}s"
    if missed:
        return GateStatus.MISSED, f"{missed} of {len(checks)} {plural} missed"
    return GateStatus.PASSED, f"{len(checks)} {plural} met"
