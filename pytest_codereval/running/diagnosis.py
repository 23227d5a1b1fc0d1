"""The end of a trial whose agent failed: what can still be seen in its sealed workspace, for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import clock
from ..criteria.contract import CriterionResult, Evidence
from ..errors import Cause, TrialError
from ..judging.diagnosis import OWN_TIME, Diagnosis
from ..judging.outcomes import CAUSES
from ..judging.strictness import nothing_evaluated
from ..sandbox.workspace import Workspace
from .attempt import Attempt

if TYPE_CHECKING:
    from ..task.models import Task

EvidenceOf = Callable[[dict[str, str], Workspace | None], Evidence]
"""Makes the evidence, with the environment of graders and the revealed reference."""

USED_UP = "time: the task used up its task_timeout, so that none was left for a diagnosis"


class AfterFailure:
    """The diagnosis of a trial that ended with `cause`. `results` is empty when its cause has none.

    `deadline` is that of the trial's `task_timeout`, None when the task sets none.
    """

    def __init__(self, task: Task, attempt: Attempt, cause: Cause, deadline: float | None) -> None:
        end = clock.monotonic() + OWN_TIME if deadline is None else deadline
        self._task = task
        self._attempt = attempt
        self._extent = CAUSES[cause].diagnosis if attempt.sealed and attempt.agent_is_dead else "none"
        self._diagnosis = Diagnosis(task, end)

    @property
    def results(self) -> tuple[CriterionResult, ...]:
        """At any time those of all criteria and strict tools."""
        match self._extent:
            case "none":
                return ()
            case "no_time":
                return nothing_evaluated(self._task, USED_UP)
        return self._diagnosis.results

    def look(self, evidence_of: EvidenceOf) -> None:
        """Begin grading and evaluate what may be. Whatever goes wrong is a reason of the results.

        Raises KeyboardInterrupt only.
        """
        if self._extent != "made":
            return
        try:
            self._evaluate(evidence_of)
        except KeyboardInterrupt:
            self._diagnosis.end("the diagnosis was interrupted")
            raise
        except TrialError as error:
            self._diagnosis.void(f"the diagnosis failed: {error}")
        except BaseException as error:
            self._diagnosis.end(f"the diagnosis failed: {type(error).__name__}: {error}")

    def _evaluate(self, evidence_of: EvidenceOf) -> None:
        attempt = self._attempt
        assert attempt.sandbox is not None
        attempt.sandbox.begin_grading()
        material = attempt.staged_material
        environment = material.reveal()
        self._diagnosis.evaluate(evidence_of(environment, material.reference_workspace()), material.verify)
        if attempt.equipment is not None:
            attempt.equipment.refuse_faults()
