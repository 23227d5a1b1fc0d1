"""Runs of the agent `anthropic` in a sandbox, against the fake API."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents.anthropic_loop import TheAgent
from pytest_codereval.agents.protocol import Job
from pytest_codereval.agents.skills.projected import ProjectedPlugin, Projection
from pytest_codereval.errors import TrialError
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.task.agent_models import AnthropicAgent
from pytest_codereval.task.models import SandboxConfig
from pytest_codereval.trajectory.model import Event, Message, ModelCall
from tests.fakes import FakeAnthropic
from tests.sandbox.making import create

from .told import ToldEvents

KEY = "fake-key-0123456789abcdef"


@dataclasses.dataclass
class Loop(ToldEvents):
    """One agent in a sandbox, what it told, and how its last run ended."""

    sandbox: DirectorySandbox
    events: list[Event] = dataclasses.field(default_factory=list)
    failure: TrialError | None = None
    agent: TheAgent = dataclasses.field(default_factory=lambda: TheAgent(first_wait=0.001))
    plugins: tuple[ProjectedPlugin, ...] = ()
    model: str | None = "claude-fake-1"
    admit: Callable[[bool], bool] = lambda main: True

    def start(self, fake: FakeAnthropic | None = None, **config: Any) -> Loop:
        job = Job(
            task=None,  # type: ignore[arg-type]
            config=AnthropicAgent(base_url=fake.url if fake else "http://127.0.0.1:1", **config),
            sandbox=self.sandbox,
            artifacts=Path("/nonexistent"),
            skills=Projection(self.plugins),
            model=self.model,
            admit=self.admit,
        )
        self.agent.start(job)
        return self

    def run(self, prompt: str = "Do it.", seconds: float = 30, stop_at: Callable[[Event], bool] | None = None) -> Loop:
        self.failure = None
        run = self.agent.run(prompt, clock.monotonic() + seconds)
        try:
            for event in run:
                self.events.append(event)
                if stop_at is not None and stop_at(event):
                    break
        except TrialError as error:
            self.failure = error
        finally:
            run.close()  # type: ignore[attr-defined]
        return self

    @property
    def texts(self) -> list[tuple[str, str]]:
        return [(event.role, event.text) for event in self.events if isinstance(event, Message)]

    @property
    def replies(self) -> list[ModelCall]:
        return [event for event in self.events if isinstance(event, ModelCall)]


@contextlib.contextmanager
def loops(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Loop]]:
    """Makes agents that are not started yet; closes their sandboxes."""
    for name in ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    made: list[Loop] = []

    def make(**fields: Any) -> Loop:
        made.append(Loop(create(SandboxConfig(), environments=EnvironmentPlan()), **fields))
        return made[-1]

    try:
        yield make
    finally:
        for loop in made:
            loop.agent.stop()
            loop.sandbox.close()


def sent_results(fake: FakeAnthropic) -> list[dict[str, Any]]:
    """The results of tools in the last request, in order."""
    blocks = [block for message in fake.requests[-1].body["messages"] for block in message["content"]]
    return [block for block in blocks if block["type"] == "tool_result"]


def check_transcript(messages: list[dict[str, Any]]) -> None:
    """Hold a request's messages to what the API demands of them."""
    assert [message["role"] for message in messages[:1]] == ["user"]
    open_calls: list[str] = []
    for before, message in zip([None, *messages], messages, strict=False):
        assert before is None or before["role"] != message["role"]
        content = message["content"]
        assert content
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        assert results == open_calls
        assert [block["type"] for block in content[: len(results)]] == ["tool_result"] * len(results)
        assert all(block["text"].strip() for block in content if block["type"] == "text")
        assert all(block["content"] or not block["is_error"] for block in content if block["type"] == "tool_result")
        open_calls = [block["id"] for block in content if block["type"] == "tool_use"]
    assert open_calls == []
    assert sum("cache_control" in block for message in messages for block in message["content"]) <= 3
