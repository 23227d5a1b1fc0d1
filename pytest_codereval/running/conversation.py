"""One conversation of a trial: what the user says, what the agent does, what the criteria say between the turns."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from .. import clock
from ..dialog.talk import make_talk
from ..dialog.transcript import Ending
from ..judging.outcomes import Status
from ..trajectory.model import Event
from ..trajectory.prices import PriceList
from .attempt import Attempt, Plan
from .between_turns import judge_between_turns
from .books import Books
from .early_stop import EarlyStopWatch


class Conversation:
    """Held once in each attempt. Raises AgentError when the user's side cannot be played at all."""

    def __init__(
        self,
        plan: Plan,
        attempt: Attempt,
        books: Books,
        prompt: str,
        prices: PriceList,
        watch: EarlyStopWatch | None = None,
    ) -> None:
        """`watch` may end it when the outcome is certain."""
        self.watch = watch
        self._plan = plan
        self._attempt = attempt
        self._books = books
        self._talk = make_talk(plan.spec.task, prompt, books.tell_simulated, books.plain_tokens, prices, plan.patience)
        self._not_the_agents = 0.0
        self._between_turns: list[dict[str, object]] = []

    def hold(self, deadline: float) -> None:
        """Let the agent answer its user until the dialogue is over, a limit is reached, it fails or time is up.

        The time that the user and the criteria take is not the agent's: it moves the deadline. What went wrong with the
        agent is kept in the attempt. Raises AgentError when the user's side failed.
        """
        meter = self._books.meter
        with contextlib.closing(self._talk) as talk:
            with self._off_the_clock():
                said = talk.opening(deadline)
            while said is not None:
                meter.begin_run()
                if self.watch is not None:
                    self.watch.begin_run()
                self._attempt.run(said, deadline + self._not_the_agents, self._goes_on)
                if self._attempt.failure is not None or meter.stop is not None:
                    talk.end(Ending.AGENT_STOPPED, self._answer)
                    return
                if self.watch is not None and self.watch.stop is not None:
                    talk.end(Ending.STOPPED_EARLY, self._answer)
                    return
                with self._off_the_clock():
                    if self._passes_already():
                        talk.end(Ending.CRITERIA_PASSED, self._answer)
                        return
                    said = talk.answer(self._answer, deadline + self._not_the_agents)

    def _goes_on(self, event: Event) -> bool:
        """Whether the agent may go on after what it just told."""
        return not self._books.meter.overrun and (self.watch is None or self.watch.goes_on(event))

    @contextlib.contextmanager
    def _off_the_clock(self) -> Iterator[None]:
        begun = clock.monotonic()
        try:
            yield
        finally:
            self._not_the_agents += clock.monotonic() - begun

    def _passes_already(self) -> bool:
        """Judge between two turns where the dialogue asks for it; whether that ends the dialogue."""
        simulation = self._plan.spec.task.simulation
        if simulation is None or not simulation.enabled or simulation.check_criteria == "end_of_dialog":
            return False
        if self._plan.execute_only:
            return False
        trajectory = self._books.trajectory(self._attempt.number)
        decision = judge_between_turns(self._plan, self._attempt, trajectory, self._books.judges)
        self._between_turns.append(dataclasses.asdict(decision))
        return simulation.stop_on_criteria_pass and decision.status is Status.PASSED

    @property
    def _answer(self) -> str:
        return self._books.trajectory(self._attempt.number).last_reply

    @property
    def record(self) -> dict[str, object]:
        """The dialogue as plain data: see `dialog.talk.Talk.record`, and `between_turns`, the decisions there."""
        return {**self._talk.record, "between_turns": self._between_turns}
