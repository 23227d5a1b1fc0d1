"""How a trial stands: its fault or its decision, whether it runs now or is judged from its record."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..criteria.contract import CriterionResult
from ..errors import Cause, CoderEvalError, TrialError
from ..judging.gate import Decision
from ..judging.outcomes import CAUSES, Status
from ..judging.strictness import nothing_evaluated

if TYPE_CHECKING:
    from ..task.trials import TrialSpec

EXECUTED = "executed, not judged"
"""The reason of a trial that is not evaluated because its session only executes."""


class Standing(abc.ABC):
    """`fault` is the first that was met; `folder` the trial's in the run directory, None before it has one.

    `item` names the pytest item that runs the trial, `rerun_of` says which stored trial it takes the place of and why.
    """

    def __init__(self, spec: TrialSpec) -> None:
        self.spec = spec
        self.task = spec.task
        self.results: tuple[CriterionResult, ...] = ()
        self.decision: Decision | None = None
        self.fault: TrialError | None = None
        self.post_failure: tuple[CriterionResult, ...] = ()
        self.folder: Path | None = None
        self.item: str | None = None
        self.rerun_of: Mapping[str, object] | None = None

    @property
    @abc.abstractmethod
    def _sealed(self) -> bool:
        """Whether all evidence is there."""

    @property
    def status(self) -> Status:
        """How the trial stands now; before its seal it counts as interrupted."""
        if self.fault is not None:
            return CAUSES[self.fault.cause].status
        if self.decision is not None:
            return self.decision.status
        return Status.NOT_EVALUATED if self._sealed else Status.ERROR

    @property
    def judged(self) -> bool:
        """Whether the criteria were looked at, so that there is a decision."""
        return self.decision is not None and self.decision.reason != EXECUTED

    @property
    def message(self) -> str:
        """The reason of the status in one line or a few."""
        if self.fault is not None:
            return str(self.fault)
        if self.decision is not None:
            return self.decision.reason
        return "the trial was not judged" if self._sealed else "interrupted"

    @property
    def criteria(self) -> tuple[CriterionResult, ...]:
        """The criteria's results; `not_evaluated` throughout when the trial did not come to be judged."""
        if self.results and self.fault is None:
            return self.results
        reason = f"the trial ended in error: {self.message}" if self.status is Status.ERROR else self.message
        return nothing_evaluated(self.task, reason)

    def note_failure(self, message: str) -> None:
        """Something around the trial failed before it could be judged: it is an error, not an open question."""
        if self.fault is None and self.decision is None:
            self.fault = TrialError(Cause.UNEXPECTED, message)

    def _leave_unjudged(self) -> Decision:
        """The decision in a session that only executes."""
        self.decision = Decision(Status.NOT_EVALUATED, EXECUTED, None)
        return self.decision

    @contextlib.contextmanager
    def _guarded(self) -> Iterator[None]:
        """Keep the first fault; an unknown one becomes a fault too, never a result."""
        try:
            yield
        except TrialError as error:
            self.fault = self.fault or error
            raise
        except CoderEvalError as error:
            self.fault = self.fault or TrialError(Cause.CONFIGURATION, str(error))
            raise self.fault from error
        except OSError as error:
            self.fault = self.fault or TrialError(Cause.SANDBOX, f"{type(error).__name__}: {error}")
            raise self.fault from error
        except Exception as error:
            self.fault = self.fault or TrialError(Cause.UNEXPECTED, f"{type(error).__name__}: {error}")
            raise self.fault from error
        except BaseException as error:
            self.fault = self.fault or TrialError(Cause.INTERRUPTED, f"interrupted: {error}".rstrip(": "))
            raise
