"""The agent that tells a recorded trial again, its shell commands and changes of files carried out anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from ... import clock
from ...trajectory.model import NOTHING_USED, Event, Message, ModelCall, ToolCall
from ..protocol import Job, time_is_up
from .recorded import Paths, read_recorded
from .workshop import Workshop

_UNDONE = "\n(replay: not carried out, for the record does not say what was written)"


class TheAgent:
    """Each prompt is answered by what the record has up to its next prompt; when that is used up, by nothing."""

    def start(self, job: Job) -> None:
        """See `protocol.Agent.start`. Raises AgentError."""
        config: Any = job.config
        self._job = job
        recorded = read_recorded(config.record, job.task_folder)
        self._paths = Paths(recorded, job.sandbox)
        self._workshop = Workshop(job.sandbox, recorded.keeps_directory) if config.execute else None
        self._turns = iter(recorded.turns)

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """See `protocol.Agent.run`."""
        for event in next(self._turns, ()):
            if deadline <= clock.monotonic():
                raise time_is_up("the replay")
            now = clock.now()
            if isinstance(event, ModelCall):
                if event.parent_id is None and not self._job.admit(True):
                    return
                yield ModelCall(event.id, None, NOTHING_USED, True, now, now, parent_id=event.parent_id)
            elif isinstance(event, ToolCall):
                yield from self._tool(event, deadline)
            elif isinstance(event, Message):
                yield Message(event.role, event.text, now)

    def _tool(self, recorded: ToolCall, deadline: float) -> Iterator[Event]:
        now = clock.now()
        parameters = self._paths.renewed(recorded.parameters)
        call = dataclasses.replace(recorded, parameters=parameters, started=now, ended=None, attempt=1)
        if self._workshop is None or not self._workshop.can_do(call):
            if self._workshop is not None and self._workshop.leaves_undone(call):
                call = dataclasses.replace(call, output=f"{call.output}{_UNDONE}")
            yield call if recorded.ended is None else dataclasses.replace(call, ended=now)
            return
        call = dataclasses.replace(call, status="unknown", output="", exit_status=None)
        yield call
        done = self._workshop.carry_out(call, deadline)
        yield dataclasses.replace(call, **vars(done), ended=clock.now())
        if done.exit_status is not None and deadline <= clock.monotonic():
            raise time_is_up("the replay")

    def stop(self) -> tuple[()]:
        return ()
