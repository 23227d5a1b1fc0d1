"""The books of one trial: what its agent told, what it used, and what that cost, over all its attempts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import clock
from ..agents.limits import Meter
from ..errors import Cause
from ..trajectory.model import Event, ModelCall, ModelFault, Trajectory
from ..trajectory.spending import Spending, spending
from .entries import Entries
from .judge_accounts import JudgeAccounts
from .session import Session

if TYPE_CHECKING:
    from ..task.models import Task

PROVIDER_OF_USERS = "anthropic"
"""The provider of the models that play users."""

NO_ADVICE = 1.0
"""Seconds for which a rate limit is news where its provider does not say how long to wait."""


class Books:
    """`meter` keeps the limits of the trial. `provider` is the one whose rate its agent shares, once that is known.

    `judges` are the accounts of what judges use, which is no part of the limits.
    """

    def __init__(self, task: Task, trial_id: str, session: Session) -> None:
        self.meter = Meter(task.run_limits, session.prices, session.has_budget)
        self.provider: str | None = None
        self._session = session
        self._events: dict[tuple[object, ...], Event] = {}
        self._entries = Entries(trial_id, session, "agent")
        self._entries_of_user = Entries(trial_id, session, "simulated user")
        self._simulated_calls: list[ModelCall] = []
        self.judges = JudgeAccounts(trial_id, session)

    def tell(self, event: Event) -> None:
        """Keep an event of the agent; a later one with the id of an earlier one of its kind takes that one's place.

        Raises AgentError(UNPRICED or USAGE_UNKNOWN) when a cap cannot be kept any more.
        """
        key = (type(event), event.attempt, getattr(event, "id", len(self._events)))
        self._events[key] = event
        try:
            self.meter.take(event)
        finally:
            if isinstance(event, ModelCall):
                self._enter(self._entries, event)
            elif isinstance(event, ModelFault) and event.cause is Cause.RATE_LIMITED:
                self._note_limit(event, self.provider)

    def tell_simulated(self, event: ModelCall | ModelFault) -> None:
        """Keep a call of the model that plays the user."""
        if isinstance(event, ModelCall):
            self._simulated_calls.append(event)
            self._enter(self._entries_of_user, event)
        elif event.cause is Cause.RATE_LIMITED:
            self._note_limit(event, PROVIDER_OF_USERS)

    def limited(self, seconds: float | None) -> None:
        """The provider of the agent's model asks all to wait so long, None when it does not say."""
        self._session.limited(self.provider, seconds)

    def _note_limit(self, fault: ModelFault, provider: str | None) -> None:
        """What is told late counts from the time at which it happened."""
        late = max(0.0, clock.now() - fault.time) if fault.time else 0.0
        left = (NO_ADVICE if fault.retry_after is None else fault.retry_after) - late
        if left > 0:
            self._session.limited(provider, None if fault.retry_after is None else left)

    def _enter(self, entries: Entries, call: ModelCall) -> None:
        entries.enter(call, self.meter.least_cost(call), call.complete and self.meter.cost(call) is not None)

    def trajectory(self, attempt: int) -> Trajectory:
        """All events so far; `attempt` is the last attempt."""
        turns = self.meter.turns(attempt)
        return Trajectory(tuple(self._events.values()), self.spending.usage, turns, attempt)

    @property
    def spending(self) -> Spending:
        """What the agent used in all attempts."""
        return self.meter.spending

    @property
    def simulated_spending(self) -> Spending:
        """What the model that plays the user used."""
        return spending(self._simulated_calls, self._session.prices)

    def plain_tokens(self) -> int | None:
        """Tokens of the agent, input and output, without those that a cache held or took.

        None when a reply that is whole does not tell them. Those that broke off count by what they told.
        """
        calls = [event.usage for event in self._events.values() if isinstance(event, ModelCall) and event.complete]
        if any(None in (usage.input_tokens, usage.output_tokens) for usage in calls):
            return None
        spent = self.spending
        return spent.input_tokens + spent.output_tokens
