"""Runs of the agents `command` and `replay` in a sandbox."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pytest_codereval import clock
from pytest_codereval.agents import registry
from pytest_codereval.agents.protocol import Job
from pytest_codereval.agents.skills.projected import ProjectedPlugin, Projection, Skill
from pytest_codereval.errors import AgentError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.task.models import SandboxConfig, Task
from pytest_codereval.trajectory.model import Event, Message, ModelCall, ToolCall
from tests.sandbox.making import create

SAMPLE = {
    "task_id": "sample",
    "description": "d",
    "initial_prompt": "p",
    "success_criteria": [{"type": "file_exists", "path": "a", "description": "d"}],
}


@dataclasses.dataclass
class Told:
    """What an agent told, and how it ended."""

    sandbox: DirectorySandbox
    events: list[Event] = dataclasses.field(default_factory=list)
    failure: AgentError | None = None

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def calls(self) -> list[ToolCall]:
        """Each tool call as it was told last."""
        return list({event.id: event for event in self.of(ToolCall)}.values())

    @property
    def answers(self) -> list[str]:
        return [event.text for event in self.of(Message) if event.role == "assistant"]

    @property
    def model_calls(self) -> list[ModelCall]:
        return self.of(ModelCall)

    def file(self, path: str) -> str:
        return (self.sandbox.workspace / path).read_text(encoding="utf-8")


@contextlib.contextmanager
def run_agent(
    artifacts: Path,
    block: dict[str, Any],
    *prompts: str,
    skills: Path | None = None,
    timeout: float = 60,
    leave_after: int | None = None,
    **job: Any,
) -> Iterator[Told]:
    """What the agent of this block tells of each prompt; its sandbox is there until the context ends.

    Each run is left after so many events, as it is when a limit is reached.
    """
    task = Task.model_validate({**SAMPLE, "agent": block})
    sandbox = create(SandboxConfig(), environments=EnvironmentPlan())
    told = Told(sandbox)
    assert task.agent is not None
    agent = registry.create(str(block["type"]), task.agent)
    projection = _provided(sandbox, skills) if skills else Projection()
    try:
        try:
            agent.start(Job(task, task.agent, sandbox, artifacts / "agent", projection, **job))
            for prompt in prompts or ("do it",):
                events: Any = agent.run(prompt, clock.monotonic() + timeout)
                _take(told, itertools.islice(events, leave_after))
                events.close()
        except AgentError as error:
            told.failure = error
        sandbox.reap()
        _take(told, agent.stop())
        yield told
    finally:
        sandbox.close()


def _take(told: Told, events: Iterable[Event]) -> None:
    for event in events:
        told.events.append(event)


def _provided(sandbox: DirectorySandbox, folder: Path) -> Projection:
    there = sandbox.provide(folder, "plugins/house")
    skills = [Skill(place.name, "", place, "house") for place in sorted((there / "skills").iterdir())]
    return Projection((ProjectedPlugin("house", there, tuple(skills)),))
