"""Runs of the real program in a sandbox, against the fake API, through the gateway."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents.codex import TheAgent
from pytest_codereval.agents.protocol import Job
from pytest_codereval.agents.skills.projection import make_projection
from pytest_codereval.errors import AgentError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.models import SandboxConfig
from pytest_codereval.trajectory.model import Event, Message
from tests.fakes import FakeOpenAI
from tests.sandbox.making import create

from .told import ToldEvents

KEY = "fake-key-0123456789abcdef"
CLASSIC = "some-unknown-model"
"""Codex offers its classic tools to a model that it does not know, and JavaScript to its default model."""

TASK = {
    "task_id": "sample",
    "description": "d",
    "initial_prompt": "p",
    "success_criteria": [{"type": "file_exists", "path": "a", "description": "d"}],
}


def put_codex_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the test when the program is not installed."""
    program = os.environ.get("CODEREVAL_TEST_CODEX") or shutil.which("codex")
    if program is None:
        pytest.skip("codex is not on PATH and CODEREVAL_TEST_CODEX does not name it")
    monkeypatch.setenv("PATH", f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}")


@dataclasses.dataclass
class Told(ToldEvents):
    """What an agent told, and how its last run ended."""

    events: list[Event] = dataclasses.field(default_factory=list)
    failure: AgentError | None = None

    @property
    def commands(self) -> list[object]:
        return [call.parameters["command"] for call in self.calls("Bash")]

    @property
    def texts(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Message)]


class Stage:
    """A sandbox with an agent that can be asked, and what it told until now."""

    def __init__(self, folder: Path, fake: FakeOpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", fake.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        self.fake = fake
        self.folder = folder
        self.artifacts = folder / "artifacts"
        self.told = Told()
        self.sandbox: DirectorySandbox = create(SandboxConfig(), environments=EnvironmentPlan())
        self.agent = TheAgent()

    def shim(self, name: str, text: str) -> None:
        """A program that stands before all others on the agent's PATH."""
        program = self.sandbox.bin_dir / name
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)

    def start(
        self, admit: Callable[[bool], bool] = lambda main: True, sandbox: Mapping[str, Any] | None = None, **config: Any
    ) -> None:
        """Start the agent with the keys of its block, in a task with this `sandbox` block."""
        block = {"type": "codex", "model": CLASSIC, **config}
        (self.folder / "task.yaml").write_text(
            json.dumps(TASK | {"agent": block, "sandbox": sandbox or {}}, ensure_ascii=False), encoding="utf-8"
        )
        task = load_task(self.folder / "task.yaml").task
        assert task.agent is not None
        self.sandbox.end_preparation()
        skills = make_projection(task, self.folder, self.sandbox)
        self.agent.start(
            Job(task, task.agent, self.sandbox, self.artifacts, skills, model=task.agent.model, admit=admit)
        )

    def ask(self, prompt: str = "do it", seconds: float = 60) -> Told:
        """One run; its failure is kept."""
        try:
            for event in self.agent.run(prompt, clock.monotonic() + seconds):
                self.told.events.append(event)
        except AgentError as error:
            self.told.failure = error
        return self.told

    def end(self) -> Told:
        """Kill everything and let the agent tell the rest."""
        self.sandbox.reap()
        self.told.events += self.agent.stop()
        return self.told

    def close(self) -> None:
        with contextlib.suppress(AgentError):
            list(self.agent.stop())
        self.sandbox.close()

    def described(self) -> Mapping[str, Any]:
        """What the record says of the agent."""
        found: Mapping[str, Any] = json.loads((self.artifacts / "agent.json").read_text(encoding="utf-8"))
        return found
