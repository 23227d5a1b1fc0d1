"""What a trial says to its agent, one prompt after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from ..trajectory.model import ModelCall, ModelFault
from .transcript import Ending, Transcript

if TYPE_CHECKING:
    from ..task.models import Task
    from ..trajectory.prices import PriceList

Tell = Callable[[ModelCall | ModelFault], None]
"""Takes each call of the model that plays the user, at the moment when it ended."""


class Talk(Protocol):
    """The user's side of one conversation. Made anew for each attempt of a trial.

    Deadlines are of `clock.monotonic`. A failure of the user's side is raised as AgentError(SIMULATED_USER); it never
    says anything about the agent.
    """

    def opening(self, deadline: float) -> str | None:
        """The first prompt, None when there is none."""

    def answer(self, said: str, deadline: float) -> str | None:
        """What the user says to the agent's last reply, None when the conversation is over."""

    def end(self, ending: Ending, said: str | None = None) -> None:
        """The trial ends the conversation; `said` is the agent's last reply, unless `answer` had it already."""

    def close(self) -> None:
        """Let go of all connections."""

    @property
    def record(self) -> dict[str, object]:
        """Plain data: `exchanges` [{user, agent}], `ended` (a value of Ending or None), and `model`.

        With a simulated user also its `instructions`, `opening` (given or generated) and `last_words`, which it said
        together with its stop token and which the agent did not get.
        """


def make_talk(
    task: Task,
    prompt: str,
    tell_cost: Tell,
    spent_by_agent: Callable[[], int | None] = lambda: 0,
    prices: PriceList | None = None,
    patience: float = 1.0,
) -> Talk:
    """The user's side of the task. `prompt` is its first prompt, blank when it has none.

    `spent_by_agent` gives the tokens that the agent has used so far, without those that the cache held or took: input
    and output, None when that is unknown. `prices` are for `simulation.max_usd`; `patience` is how many seconds pass
    before a failed call of the model is tried again. When a model shall play the user, raises AgentError:
    NO_CREDENTIALS when there is no key for it, UNPRICED when `max_usd` needs a price that is not known.
    """
    simulation = task.simulation
    if simulation is None or not simulation.enabled:
        first = (prompt,) if prompt.strip() else ()
        return ScriptedTalk((*first, *task.follow_up_prompts))
    from .simulated_user import SimulatedUser

    return SimulatedUser(task.description, simulation, prompt, tell_cost, spent_by_agent, prices, patience)


class ScriptedTalk:
    """Says the prompts in order, whatever the agent replies."""

    def __init__(self, prompts: Iterable[str]) -> None:
        self._left = list(prompts)
        self._transcript = Transcript()

    def opening(self, deadline: float) -> str | None:
        return self._next()

    def answer(self, said: str, deadline: float) -> str | None:
        self._transcript.reply(said)
        return self._next()

    def _next(self) -> str | None:
        if self._transcript.ending is not None:
            return None
        if self._left:
            return self._transcript.ask(self._left.pop(0))
        self._transcript.end(Ending.PROMPTS_USED_UP)
        return None

    def end(self, ending: Ending, said: str | None = None) -> None:
        if said is not None:
            self._transcript.reply(said)
        self._transcript.end(ending)

    def close(self) -> None:
        return

    @property
    def record(self) -> dict[str, object]:
        return {"model": None, **self._transcript.describe()}
