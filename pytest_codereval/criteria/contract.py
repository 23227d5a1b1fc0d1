"""What a criterion may look at, and what it answers."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..recorder.invocation import InvocationLog
from ..trajectory.model import Trajectory

if TYPE_CHECKING:
    from ..sandbox.protocol import ProcessResult
    from ..sandbox.workspace import Workspace
    from .judges.desk import JudgeDesk


class Verdict(enum.StrEnum):
    """The verdict of one criterion."""

    PASS = "pass"
    FAIL = "fail"
    NOT_EVALUATED = "not_evaluated"
    ERROR = "error"


class GradingShell(Protocol):
    """Runs a criterion's command in the grading environment."""

    def __call__(self, command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        """Run `command` by `sh -c` in the workspace. Raises TrialError when the sandbox itself failed."""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """All that a criterion may look at: the sealed workspace, what the agent did, which tools were called.

    `trajectory` is None when the trial had no agent; `invocations.recorded_tools` is empty when nothing was recorded.
    """

    workspace: Workspace
    trajectory: Trajectory | None
    invocations: InvocationLog
    shell: GradingShell
    reference: Any = None
    """The staged reference as a Workspace, or None."""
    cli_patterns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The models of the task's cli_called criteria that have a name, by that name."""
    desk: JudgeDesk | None = None
    """Where judges work; None where none can be asked."""
    known_as: str = ""
    """The path that the agent knew the workspace by, where that is another one than the path of `workspace`."""

    @property
    def root(self) -> str:
        """The path of the workspace in what the agent did."""
        return self.known_as or str(self.workspace.root)

    @property
    def final_answer(self) -> str:
        return self.trajectory.final_answer if self.trajectory else ""


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What a checker found. The score lies in 0..1; the verdict follows from it and the criterion's threshold.

    `reason` is one line for people, `details` all that helps to understand it, `note` one line that people should see
    also beside a pass. `label` and `expected_label` are given by criteria that classify. A criterion that cannot be
    judged raises JudgingError instead.
    """

    score: float
    reason: str = ""
    details: str = ""
    note: str = ""
    label: str | None = None
    expected_label: str | None = None
    judge: Mapping[str, Any] | None = None
    """How a model came to it, as plain data: model, scores, findings, usage, transcript."""


Checker = Callable[[Any, Evidence], Judgement]
"""Takes the criterion's model and the evidence."""


@dataclasses.dataclass(frozen=True)
class CriterionResult:
    """The verdict of one criterion of one trial. `score` is None unless it was evaluated. `duration` is in seconds."""

    index: int
    name: str
    type: str
    description: str
    verdict: Verdict
    score: float | None
    weight: float
    pass_threshold: float
    gating: bool
    reason: str = ""
    details: str = ""
    note: str = ""
    label: str | None = None
    expected_label: str | None = None
    duration: float = 0.0
    suite_thresholds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    judge: Mapping[str, Any] | None = None
    advisory: bool = False
    """The run was stopped early by others, which decide; it is judged and shown, and does not count."""

    def as_record(self) -> dict[str, object]:
        """The fields as plain data."""
        return dict(vars(self))
