"""An agent whose steps stand in the task and are carried out in the sandbox for real. It needs no model."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

from .. import clock
from ..errors import AgentError, Cause
from ..sandbox.protocol import Phase, Sandbox
from ..trajectory.model import NOTHING_USED, Event, Message, ModelCall, ToolCall, ToolStatus
from .protocol import Job, time_is_up
from .shells import in_bash

BASH_TIMEOUT = 120.0
"""Seconds that a bash step may take when it names no timeout of its own."""


class TheAgent:
    """Runs `agent.steps` in order. Each step but `sleep`, `crash` and `listen` is one turn."""

    def start(self, job: Job) -> None:
        steps = getattr(job.config, "steps", None)
        if not steps:
            raise AgentError(Cause.CONFIGURATION, "the script agent needs agent.steps in the task")
        self._job = job
        self._steps = iter(steps)
        self._turns = itertools.count(1)

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """Carry out the steps up to the next `listen`."""
        for step in self._steps:
            if step.listen:
                return
            if deadline <= clock.monotonic():
                raise time_is_up("the script")
            if step.crash is not None:
                raise AgentError(Cause.AGENT_CRASH, step.crash)
            if step.sleep is not None:
                time.sleep(min(step.sleep, max(deadline - clock.monotonic(), 0.0)))
                if deadline <= clock.monotonic():
                    raise time_is_up("the script")
                continue
            if not self._job.admit(True):
                return
            number = next(self._turns)
            now = clock.now()
            yield ModelCall(f"turn-{number}", None, NOTHING_USED, started=now, ended=now)
            yield from _carry_out(step, f"step-{number}", self._job.sandbox, deadline)

    def stop(self) -> tuple[()]:
        return ()


def _carry_out(step: Any, identity: str, sandbox: Sandbox, deadline: float) -> Iterator[Event]:
    started = clock.now()
    if step.bash is not None:
        yield from _bash(step, identity, sandbox, deadline)
    elif step.write is not None:
        parameters: dict[str, object] = {"file_path": step.write.path, "content": step.write.content}
        status: ToolStatus = "success"
        output = ""
        try:
            sandbox.write_file(step.write.path, step.write.content.encode())
        except (OSError, ValueError) as error:
            status, output = "error", str(error)
        yield ToolCall(identity, "Write", parameters, status, output, None, started, clock.now())
    elif step.tool is not None:
        tool = step.tool
        yield ToolCall(identity, tool.name, tool.parameters, tool.status, tool.output, None, started, clock.now())
    else:
        yield Message("assistant", step.say, started)


def _bash(step: Any, identity: str, sandbox: Sandbox, deadline: float) -> Iterator[Event]:
    parameters = {"command": step.bash}
    started = clock.now()
    yield ToolCall(identity, "Bash", parameters, "unknown", started=started)
    allowed = min(step.timeout or BASH_TIMEOUT, deadline - clock.monotonic())
    result = sandbox.run(in_bash(step.bash), phase=Phase.AGENT, timeout=allowed)
    output = result.stdout_text + result.stderr_text
    if result.timed_out:
        output += f"\n(killed after {allowed:g} s)"
    status: ToolStatus = "success" if result.exit_status == 0 else "error"
    yield ToolCall(identity, "Bash", parameters, status, output, result.exit_status, started, clock.now())
    if result.timed_out and deadline <= clock.monotonic():
        raise time_is_up("the script")
