"""What an agent promises: it starts in a sandbox, works on prompts there and tells what it does, and stops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import AgentError, Cause
from ..trajectory.model import Event

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox
    from ..task.models import AgentConfig, Task
    from .skills.projected import Projection


MOST_EVENTS = 1_000_000
"""Events that one run may tell."""


def time_is_up(what: str) -> AgentError:
    """The error of a run that came to its deadline before it was done."""
    return AgentError(Cause.TURN_TIMEOUT, f"{what} was still working at its deadline")


@dataclasses.dataclass(frozen=True)
class OwnTool:
    """A tool that the harness itself carries out, outside the sandbox.

    `definition` is as the Messages API takes it. `run` takes the input of a call and returns whether it succeeded, and
    what the agent is told.
    """

    definition: Mapping[str, Any]
    run: Callable[[Mapping[str, object]], tuple[bool, str]]


@dataclasses.dataclass(frozen=True)
class Job:
    """All that an agent gets to know.

    `task_folder` is where paths of the agent's block start. `admit(main)` says whether another call of a model may be
    made, by the main thread or by a sub-agent; after a no the agent ends its run without an error. `artifacts` is a
    folder of the trial's record for what the agent's program printed. `skills` are the copies of its plugins.
    `max_turns` is the cap on replies of a model in one run. `patience` multiplies the waits before a failed call of the
    model is made again. `limited` takes at once for how many seconds the model's provider asks to wait (None: unknown);
    it is for a run that can tell its ModelFault only later. `own_tools` are there beside the agent's tools; only the
    agent `anthropic` can have any.
    """

    task: Task
    config: AgentConfig
    sandbox: Sandbox
    artifacts: Path
    skills: Projection
    model: str | None = None
    max_turns: int | None = None
    task_folder: Path = Path()
    admit: Callable[[bool], bool] = lambda main: True
    patience: float = 1.0
    limited: Callable[[float | None], None] = lambda seconds: None
    own_tools: tuple[OwnTool, ...] = ()


class Agent(Protocol):
    """Made anew for each attempt of a trial.

    Each failure of the agent's own is raised as AgentError, by `start` when it is a mistake in the configuration; what
    was yielded before is kept. TrialError is for a sandbox that failed.
    """

    def start(self, job: Job) -> None:
        """Check what is asked of the agent, and prepare its place in the sandbox. Spends nothing."""

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """Work on `prompt` until done or until `deadline` (of `clock.monotonic`), telling each event as it happens.

        The harness has told the prompt itself as a message of the user.
        A second prompt goes on with the conversation of the first. Past its deadline a run raises
        AgentError(TURN_TIMEOUT). The harness closes the iterator when a limit is reached.
        """

    def stop(self) -> Iterable[Event]:
        """Let go of everything outside the sandbox, whose processes are dead by now, and tell what is left to tell.

        Called once, on every path.
        """
