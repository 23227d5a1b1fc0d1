"""What an agent promises: it runs a prompt in a sandbox and tells what it did."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ..errors import Cause
from ..trajectory.model import Message, ToolCall, Usage

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox
    from ..task.models import Task

Emit = Callable[[ToolCall | Message], None]
"""Takes each event at the moment it happened; what was emitted survives a crash and a timeout."""


@dataclasses.dataclass(frozen=True)
class AgentEnd:
    """How the agent ended. A cause means a crash or a timeout: its run gives no verdict."""

    turns: int
    usage: Usage = dataclasses.field(default_factory=Usage)
    cause: Cause | None = None
    message: str = ""


class Agent(Protocol):
    """Made anew for each trial."""

    def run(self, task: Task, prompt: str, sandbox: Sandbox, emit: Emit, deadline: float) -> AgentEnd:
        """Work on `prompt` until done or until `deadline` (of `clock.monotonic`).

        A failure of the agent itself is returned as a cause, never raised. Raises TrialError when the sandbox failed.
        """
