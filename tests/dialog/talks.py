"""Conversations for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_codereval import clock
from pytest_codereval.dialog.talk import Talk, make_talk
from pytest_codereval.trajectory.model import ModelCall, ModelFault

from ..task.samples import load

USER = {
    "enabled": True,
    "persona": "You sell bread.",
    "goal": "Get a greeting.",
    "model": "anthropic.claude-sonnet-4-6",
}


def soon() -> float:
    return clock.monotonic() + 20


def nothing(call: ModelCall | ModelFault) -> None:
    pass


def talk(
    simulation: dict[str, Any] | None = None,
    prompt: str = "hi",
    tell: Callable[[ModelCall | ModelFault], None] = nothing,
    spent_by_agent: Callable[[], int | None] = lambda: 0,
    **task: Any,
) -> Talk:
    """The user's side of a task; `simulation` is laid over an enabled one."""
    block = {"simulation": {**USER, **simulation}} if simulation is not None else {}
    loaded = load(initial_prompt=prompt or None, **block, **task)
    return make_talk(loaded.task, prompt, tell, spent_by_agent, patience=0)
