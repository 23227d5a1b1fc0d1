"""Errors that a user may meet. Each message stands alone: it is shown without a traceback."""

from __future__ import annotations

import dataclasses
import enum


class Cause(enum.StrEnum):
    """Why a trial ended without a verdict of its criteria. `judging.outcomes` says what follows from each."""

    NO_AGENT = "no_agent"
    AGENT_UNAVAILABLE = "agent_unavailable"
    CONFIGURATION = "configuration"
    SANDBOX = "sandbox"
    OUT_OF_SPACE = "out_of_space"
    PRE_RUN = "pre_run"
    SHIM_UNREACHABLE = "shim_unreachable"
    EVIDENCE_LOST = "evidence_lost"
    TAMPERED = "tampered"
    UNMATCHED_CALL = "unmatched_call"
    ANSWERS_FAILED = "answers_failed"
    AGENT_CRASH = "agent_crash"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    CONNECTION = "connection"
    API_FAULT = "api_fault"
    AUTHENTICATION = "authentication"
    BILLING = "billing"
    BAD_REQUEST = "bad_request"
    REFUSED = "refused"
    CONTEXT_FULL = "context_full"
    OUTPUT_CUT = "output_cut"
    NO_CREDENTIALS = "no_credentials"
    UNPRICED = "unpriced"
    USAGE_UNKNOWN = "usage_unknown"
    SIMULATED_USER = "simulated_user"
    BUDGET_SPENT = "budget_spent"
    TURN_TIMEOUT = "turn_timeout"
    TASK_TIMEOUT = "task_timeout"
    INTERRUPTED = "interrupted"
    UNEXPECTED = "unexpected"


class CoderEvalError(Exception):
    """Base of all errors that this package raises on purpose."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """One mistake in a file that an author wrote. Line and column count from 1; 0 where there is no file."""

    path: str
    line: int
    column: int
    key: str
    message: str

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column}" if self.line else self.path
        return f"{where}: {self.key}: {self.message}" if self.key else f"{where}: {self.message}"


class TaskFileError(CoderEvalError):
    """A task file that cannot be used, with every problem found in it."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class TrialError(CoderEvalError):
    """A trial that ended in `error`: who is at fault is told by the cause."""

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class AgentError(TrialError):
    """The agent, or the model behind it, failed. `retry_after` is how many seconds its provider asks to wait."""

    def __init__(self, cause: Cause, message: str, retry_after: float | None = None) -> None:
        super().__init__(cause, message)
        self.retry_after = retry_after


class JudgingError(CoderEvalError):
    """A criterion that cannot be judged: its verdict is `error`, never a pass or a fail."""


class NotJudged(CoderEvalError):
    """A criterion that was not looked at, such as for want of money: its verdict is `not_evaluated`."""
