"""The agent that does nothing: the criteria judge the staged workspace as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .protocol import AgentEnd, Emit

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox
    from ..task.models import Task


class TheAgent:
    """Ends at once, in no turn."""

    def run(self, task: Task, prompt: str, sandbox: Sandbox, emit: Emit, deadline: float) -> AgentEnd:
        return AgentEnd(turns=0)
