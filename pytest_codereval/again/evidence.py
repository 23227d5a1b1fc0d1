"""The evidence of a stored trial. What was left out of its record cannot be looked at without an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..criteria.contract import Evidence
from ..recorder.invocation import InvocationLog
from ..store.reader import StoredRecord
from ..trajectory.model import ToolCall, Trajectory
from .workspace import Gap, not_in_record

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ..criteria.judges.desk import Room
    from ..sandbox.protocol import ProcessResult

_LEFT_OUT = "secrets are left out of"


class PartlyKnownTrajectory(Trajectory):
    """A trajectory whose `withheld` parts differ from what the agent told."""

    withheld: frozenset[str] = frozenset()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """See `Trajectory.tool_calls`."""
        if "tools" in self.withheld:
            raise not_in_record(f"{_LEFT_OUT} the agent's tool calls")
        return super().tool_calls

    @property
    def last_reply(self) -> str:
        """See `Trajectory.last_reply`."""
        self._refuse_answers()
        return super().last_reply

    @property
    def final_answer(self) -> str:
        """See `Trajectory.final_answer`."""
        self._refuse_answers()
        return super().final_answer

    def _refuse_answers(self) -> None:
        if "answers" in self.withheld:
            raise not_in_record(f"{_LEFT_OUT} the agent's messages")


class UnknownLog(InvocationLog):
    """Recorded calls that differ from what was called."""

    def __getattribute__(self, name: str) -> Any:
        if name == "invocations":
            raise not_in_record(f"{_LEFT_OUT} the recorded calls")
        return super().__getattribute__(name)


def known_trajectory(stored: StoredRecord) -> Trajectory | None:
    """The trajectory as criteria may look at it."""
    trajectory, withheld = stored.trajectory, stored.redacted & {"tools", "answers"}
    if trajectory is None or not withheld:
        return trajectory
    known = PartlyKnownTrajectory(trajectory.events, trajectory.usage, trajectory.turns, trajectory.attempt)
    object.__setattr__(known, "withheld", withheld)
    return known


def known_log(stored: StoredRecord) -> InvocationLog:
    """The recorded calls as criteria may look at them."""
    log = stored.log
    return UnknownLog(**vars(log)) if "calls" in stored.redacted else log


def with_gaps(evidence: Evidence, gaps: Sequence[Gap]) -> Evidence:
    """The same evidence, but no command and no agent that judges works in a workspace that is not what it was."""
    if not gaps:
        return evidence

    def shell(command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        raise not_in_record(f"a command would see {gaps[0]}")

    def room(_evidence: Evidence) -> AbstractContextManager[Room]:
        raise not_in_record(f"an agent that judges would see {gaps[0]}")

    desk = evidence.desk and dataclasses.replace(evidence.desk, make_room=room)
    return dataclasses.replace(evidence, shell=shell, desk=desk)
