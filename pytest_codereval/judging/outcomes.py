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


@dataclasses.dataclass(frozen=True)
class Consequence:
    """What follows from a cause: the trial's status, and whether it is tried again, in a fresh sandbox.

    Before the n-th further try `first_wait` * 2^(n-1) seconds pass, or what the provider asks for where that is more.
    `diagnosis` tells whether criteria are looked at nevertheless, see `judging.diagnosis`: with `no_time` each is
    `not_evaluated`, with `none` nothing is recorded.
    """

    what: str
    status: Status = Status.ERROR
    further_tries: int = 0
    first_wait: float = 0.0
    diagnosis: Literal["none", "no_time", "made"] = "none"


CAUSES: Mapping[Cause, Consequence] = MappingProxyType(
    {
        Cause.NO_AGENT: Consequence("no agent chosen"),
        Cause.AGENT_UNAVAILABLE: Consequence("the agent is not available"),
        Cause.CONFIGURATION: Consequence("the task cannot be set up"),
        Cause.SANDBOX: Consequence("the sandbox failed"),
        Cause.OUT_OF_SPACE: Consequence("no room on the disk"),
        Cause.PRE_RUN: Consequence("pre_run failed"),
        Cause.SHIM_UNREACHABLE: Consequence("a recorded tool cannot be reached"),
        Cause.EVIDENCE_LOST: Consequence("evidence was lost"),
        Cause.TAMPERED: Consequence("tampered"),
        Cause.ANSWERS_FAILED: Consequence("the answers of a recorded tool failed"),
        Cause.UNMATCHED_CALL: Consequence("a recorded tool was called as nothing foresees"),
        Cause.AGENT_CRASH: Consequence("the agent crashed", further_tries=1, first_wait=5, diagnosis="made"),
        Cause.RATE_LIMITED: Consequence(
            "the model's provider limits the rate", further_tries=3, first_wait=30, diagnosis="made"
        ),
        Cause.OVERLOADED: Consequence(
            "the model's provider is overloaded", further_tries=2, first_wait=20, diagnosis="made"
        ),
        Cause.CONNECTION: Consequence(
            "the connection to the model failed", further_tries=2, first_wait=5, diagnosis="made"
        ),
        Cause.API_FAULT: Consequence("the model's provider failed", further_tries=2, first_wait=5, diagnosis="made"),
        Cause.AUTHENTICATION: Consequence("the model's provider does not accept the key", diagnosis="made"),
        Cause.BILLING: Consequence("the account with the model's provider is used up", diagnosis="made"),
        Cause.BAD_REQUEST: Consequence("the model's provider refused the request", diagnosis="made"),
        Cause.REFUSED: Consequence("the model refused to answer", diagnosis="made"),
        Cause.CONTEXT_FULL: Consequence("the model's context is full", diagnosis="made"),
        Cause.OUTPUT_CUT: Consequence("the model's reply was cut at its longest length", diagnosis="made"),
        Cause.NO_CREDENTIALS: Consequence("no key for the model's provider", diagnosis="made"),
        Cause.UNPRICED: Consequence("the price of the model is not known"),
        Cause.USAGE_UNKNOWN: Consequence("what the model used is not known"),
        Cause.SIMULATED_USER: Consequence("the simulated user failed"),
        Cause.BUDGET_SPENT: Consequence("the session's budget is used up", status=Status.NOT_EVALUATED),
        Cause.TURN_TIMEOUT: Consequence("the agent's turn took too long", diagnosis="made"),
        Cause.TASK_TIMEOUT: Consequence("the task took too long", diagnosis="no_time"),
        Cause.INTERRUPTED: Consequence("interrupted"),
        Cause.UNEXPECTED: Consequence("unexpected fault of the harness"),
    }
)
"""The one table of causes: retries, diagnosis, records, reports and the session's exit status follow it. An unknown
fault is an error too, never a result."""


def pass_rate(counts: Mapping[Status, int]) -> float | None:
    """passed / (passed + failed + error), None when nothing was measured."""
    measured = sum(counts.get(status, 0) for status, outcome in OUTCOMES.items() if outcome.in_rate)
    return counts.get(Status.PASSED, 0) / measured if measured else None
