"""An agent whose steps stand in the task and are carried out in the sandbox for real. It needs no model."""

from __future__ import annotations

import itertools
import shutil
import time
from typing import TYPE_CHECKING, Any

from .. import clock
from ..errors import Cause, TrialError
from ..sandbox.protocol import Phase
from ..trajectory.model import Message, ToolCall, ToolStatus
from .protocol import AgentEnd, Emit

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox
    from ..task.models import Task

BASH_TIMEOUT = 120.0
"""Seconds that a bash step may take when it names no timeout of its own."""


class TheAgent:
    """Runs `agent.steps` in order, up to `max_turns`. Each step but `sleep` and `crash` is one turn."""

    def run(self, task: Task, prompt: str, sandbox: Sandbox, emit: Emit, deadline: float) -> AgentEnd:
        steps = getattr(task.agent, "steps", None)
        if not steps:
            raise TrialError(Cause.CONFIGURATION, "the script agent needs agent.steps in the task")
        script = _Script(sandbox, emit, deadline)
        most = task.run_limits.max_turns if task.run_limits else None
        for step in steps:
            if most is not None and script.turns >= most:
                break
            end = script.carry_out(step)
            if end is not None:
                return end
        return AgentEnd(turns=script.turns)


class _Script:
    def __init__(self, sandbox: Sandbox, emit: Emit, deadline: float) -> None:
        self.turns = 0
        self._sandbox = sandbox
        self._emit = emit
        self._deadline = deadline
        self._ids = (f"step-{number}" for number in itertools.count(1))

    def carry_out(self, step: Any) -> AgentEnd | None:
        """Do one step; an end means that no further step may run."""
        if self._left() <= 0:
            return self._timeout()
        if step.crash is not None:
            return AgentEnd(turns=self.turns, cause=Cause.AGENT_CRASH, message=step.crash)
        if step.sleep is not None:
            time.sleep(min(step.sleep, max(self._left(), 0.0)))
            return self._timeout() if self._left() <= 0 else None
        self.turns += 1
        if step.bash is not None:
            return self._bash(step.bash, step.timeout)
        if step.write is not None:
            self._write(step.write.path, step.write.content)
        elif step.tool is not None:
            tool = step.tool
            self._tell(tool.name, tool.parameters, tool.status, tool.output, clock.now())
        else:
            self._emit(Message("assistant", step.say, clock.now()))
        return None

    def _bash(self, command: str, timeout: float | None) -> AgentEnd | None:
        shell = shutil.which("bash") or "/bin/sh"
        allowed = min(timeout or BASH_TIMEOUT, self._left())
        started = clock.now()
        result = self._sandbox.run([shell, "-c", command], phase=Phase.AGENT, timeout=allowed)
        output = result.stdout_text + result.stderr_text
        if result.timed_out:
            self._tell("Bash", {"command": command}, "error", f"{output}\n(killed after {allowed:g} s)", started, 137)
            return self._timeout() if self._left() <= 0 else None
        status: ToolStatus = "success" if result.exit_status == 0 else "error"
        self._tell("Bash", {"command": command}, status, output, started, result.exit_status)
        return None

    def _write(self, path: str, content: str) -> None:
        started = clock.now()
        parameters: dict[str, object] = {"file_path": path, "content": content}
        try:
            self._sandbox.write_file(path, content.encode())
        except (OSError, ValueError) as error:
            self._tell("Write", parameters, "error", str(error), started)
        else:
            self._tell("Write", parameters, "success", "", started)

    def _tell(
        self,
        name: str,
        parameters: dict[str, object],
        status: ToolStatus,
        output: str,
        started: float,
        exit_status: int | None = None,
    ) -> None:
        self._emit(ToolCall(next(self._ids), name, parameters, status, output, exit_status, started, clock.now()))

    def _left(self) -> float:
        return self._deadline - clock.monotonic()

    def _timeout(self) -> AgentEnd:
        return AgentEnd(turns=self.turns, cause=Cause.TURN_TIMEOUT, message="the script's time was up")
