"""Runs of the real Claude Code in a sandbox, against the fake API, through the gateway."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents.claude_code import TheAgent
from pytest_codereval.agents.protocol import Job
from pytest_codereval.agents.skills.projection import make_projection
from pytest_codereval.errors import AgentError, TrialError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.models import SandboxConfig
from pytest_codereval.trajectory.model import Event, Message
from tests.fakes import FakeAnthropic
from tests.sandbox.making import create

from .told import ToldEvents

KEY = "fake-key-0123456789abcdef"

TASK = {
    "task_id": "sample",
    "description": "d",
    "initial_prompt": "p",
    "success_criteria": [{"type": "file_exists", "path": "a", "description": "d"}],
}


def need_claude() -> None:
    """Skip the test when the program is not installed."""
    if shutil.which("claude") is None and importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude is not on PATH and claude-agent-sdk is not installed")


@dataclasses.dataclass
class Told(ToldEvents):
    """What an agent told, and how its last run ended."""

    events: list[Event] = dataclasses.field(default_factory=list)
    failure: TrialError | None = None

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(event.role, event.text) for event in self.events if isinstance(event, Message)]


class Stage:
    """A sandbox with an agent that can be asked, and what it told until now."""

    def __init__(self, folder: Path, fake: FakeAnthropic, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        self.fake = fake
        self.folder = folder
        self.artifacts = folder / "artifacts"
        self.told = Told()
        self.sandbox: DirectorySandbox | None = None
        self.agent = TheAgent()

    def make_sandbox(
        self, root_parent: Path | None = None, variables: Mapping[str, str] | None = None
    ) -> DirectorySandbox:
        plan = EnvironmentPlan(extra=variables or {})
        self.sandbox = create(SandboxConfig(), environments=plan, root_parent=root_parent)
        return self.sandbox

    def start(
        self,
        admit: Callable[[bool], bool] = lambda main: True,
        max_turns: int | None = None,
        task: Mapping[str, Any] | None = None,
        **config: Any,
    ) -> None:
        """Start the agent with the keys of its block."""
        sandbox = self.sandbox or self.make_sandbox()
        block = {"type": "claude-code", "permission_mode": "bypassPermissions", **config}
        (self.folder / "task.yaml").write_text(json.dumps({**TASK, "agent": block, **(task or {})}), encoding="utf-8")
        loaded = load_task(self.folder / "task.yaml").task
        assert loaded.agent is not None
        sandbox.end_preparation()
        skills = make_projection(loaded, self.folder, sandbox)
        self.agent.start(
            Job(
                loaded,
                loaded.agent,
                sandbox,
                self.artifacts,
                skills,
                model=loaded.agent.model,
                max_turns=max_turns,
                admit=admit,
            )
        )

    def ask(self, prompt: str = "do it", seconds: float = 60) -> Told:
        """One run; its failure is kept."""
        self.told.failure = None
        try:
            for event in self.agent.run(prompt, clock.monotonic() + seconds):
                self.told.events.append(event)
        except AgentError as error:
            self.told.failure = error
        return self.told

    def close(self) -> None:
        """Kill everything, and let the agent tell the rest."""
        if self.sandbox is not None:
            self.sandbox.reap()
        self.told.events += self.agent.stop()
        if self.sandbox is not None:
            self.sandbox.close()

    def environment(self) -> Mapping[str, str]:
        assert self.sandbox is not None
        return self.sandbox.environment(Phase.AGENT)

    def account(self) -> dict[str, Any]:
        """What the program said of its configuration."""
        found: dict[str, Any] = json.loads((self.artifacts / "agent.json").read_text(encoding="utf-8"))
        return found
