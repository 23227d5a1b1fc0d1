"""The one outcome table: what a status means for pytest, for rates and for the session, and what a cause leads to."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ..criteria.contract import Verdict
from ..errors import Cause


class Status(enum.StrEnum):
    """How a trial ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_EVALUATED = "not_evaluated"
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What follows from a status.

    `pytest` is pytest's word for it, `in_rate` whether it stands in the denominator of the pass rate, `fails_session`
    whether a session with it may not end with exit status 0.
    """

    pytest: Literal["passed", "failed", "error", "skipped"]
    in_rate: bool
    fails_session: bool


OUTCOMES: Mapping[Status, Outcome] = MappingProxyType(
    {
        Status.PASSED: Outcome("passed", in_rate=True, fails_session=False),
        Status.FAILED: Outcome("failed", in_rate=True, fails_session=True),
        Status.ERROR: Outcome("error", in_rate=True, fails_session=True),
        Status.NOT_EVALUATED: Outcome("skipped", in_rate=False, fails_session=True),
        Status.SKIPPED: Outcome("skipped", in_rate=False, fails_session=False),
    }
)

VERDICT_ORDER = (Verdict.ERROR, Verdict.FAIL, Verdict.NOT_EVALUATED, Verdict.PASS)
"""Over gating criteria the first of these that occurs decides."""

STATUS_OF_VERDICT: Mapping[Verdict, Status] = MappingProxyType(
    {
        Verdict.ERROR: Status.ERROR,
        Verdict.FAIL: Status.FAILED,
        Verdict.NOT_EVALUATED: Status.NOT_EVALUATED,
        Verdict.PASS: Status.PASSED,
    }
)


CAUSES: Mapping[Cause, str] = MappingProxyType(
    {
        Cause.NO_AGENT: "no agent chosen",
        Cause.AGENT_UNAVAILABLE: "the agent is not available",
        Cause.CONFIGURATION: "the task cannot be set up",
        Cause.SANDBOX: "the sandbox failed",
        Cause.PRE_RUN: "pre_run failed",
        Cause.SHIM_UNREACHABLE: "a recorded tool cannot be reached",
        Cause.EVIDENCE_LOST: "evidence was lost",
        Cause.TAMPERED: "tampered",
        Cause.ANSWERS_FAILED: "the answers of a recorded tool failed",
        Cause.UNMATCHED_CALL: "a recorded tool was called as nothing foresees",
        Cause.AGENT_CRASH: "the agent crashed",
        Cause.TURN_TIMEOUT: "the agent's turn took too long",
        Cause.TASK_TIMEOUT: "the task took too long",
        Cause.INTERRUPTED: "interrupted",
        Cause.UNEXPECTED: "unexpected fault of the harness",
    }
)
"""What is said of a cause. Every cause ends the trial in `error`; an unknown fault is an error too, never a result."""


def pass_rate(counts: Mapping[Status, int]) -> float | None:
    """passed / (passed + failed + error), None when nothing was measured."""
    measured = sum(counts.get(status, 0) for status, outcome in OUTCOMES.items() if outcome.in_rate)
    return counts.get(Status.PASSED, 0) / measured if measured else None
