"""Which agents there are, and which one runs a trial."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from ..errors import Cause, TrialError

if TYPE_CHECKING:
    from ..task.models import Task
    from .protocol import Agent

AVAILABLE = ("none", "script")
"""Names of the agents that can run; each is a module of this package with a class `TheAgent`."""


def choose(task: Task, *, override: str | None, default: str | None) -> str:
    """Name the agent of a trial: the command line's, else the task's, else the default of the ini file.

    The command line replaces every agent but `none`. Raises TrialError when none is chosen or it cannot run.
    """
    own = task.agent.type if task.agent is not None else None
    name = own if own == "none" else override or own or default
    if name is None:
        raise TrialError(
            Cause.NO_AGENT,
            "give --codereval-agent, agent.type in the task or codereval_agent in the ini file",
        )
    if name not in AVAILABLE:
        raise TrialError(Cause.AGENT_UNAVAILABLE, f"agent {name!r} is not available; available: {', '.join(AVAILABLE)}")
    return name


def leaves_script_out(task: Task, override: str | None) -> bool:
    """Whether the agent of the command line takes the place of steps that stand in the task."""
    return override not in (None, "script") and task.agent is not None and task.agent.type == "script"


def create(name: str) -> Agent:
    """Make the agent called `name`, one of `AVAILABLE`."""
    module = importlib.import_module(f"{__package__}.{name}")
    return cast("Agent", module.TheAgent())
