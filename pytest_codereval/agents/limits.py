"""The limits of a trial, kept by the harness from what its agent tells."""

from __future__ import annotations

import enum
import functools
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import AgentError, Cause
from ..trajectory.model import Event, ModelCall, ModelFault
from ..trajectory.prices import BUCKETS
from ..trajectory.spending import Spending, spending

if TYPE_CHECKING:
    from ..task.models import RunLimits
    from ..trajectory.prices import PriceList

TURN_TIMEOUT = 300.0
TASK_TIMEOUT = 600.0
"""Seconds for the agent's work where `run_limits` says nothing."""


class Stop(enum.StrEnum):
    """The cap that ended the agent's work. `forces_fail` tells that what it did is not enough whatever it is."""

    TURNS = "max_turns"
    INPUT_TOKENS = "max_input_tokens"
    OUTPUT_TOKENS = "max_output_tokens"
    TOTAL_TOKENS = "max_total_tokens"
    COST = "max_usd"

    @property
    def forces_fail(self) -> bool:
        return self is not Stop.TURNS


def is_capped(limits: RunLimits | None) -> bool:
    """Whether the trial's turns, tokens or cost have a cap."""
    return limits is not None and any(getattr(limits, stop) is not None for stop in Stop)


class Meter:
    """Counts turns, tokens and cost of one trial over all its attempts.

    `stop` is the cap that was reached. `overrun` tells that one was passed, so that the agent must not go on; an agent
    whose next call is not admitted ends by itself, once all that it did is told. `admit` may be called from any thread.
    """

    def __init__(self, limits: RunLimits | None, prices: PriceList, session_cap: bool = False) -> None:
        """`session_cap` tells that the session has a budget, for which every price must be known."""
        self._limits = limits
        self._prices = prices
        self._session_cap = session_cap
        self._needs_prices = session_cap or (limits is not None and limits.max_usd is not None)
        self._lock = threading.Lock()
        self._calls: dict[tuple[int, str], ModelCall] = {}
        self._broken: set[tuple[int, str]] = set()
        self._senseless: set[tuple[int, str]] = set()
        self._turns: set[tuple[int, str]] = set()
        self._turns_before = 0
        self.stop: Stop | None = None
        self.overrun = False

    @property
    def max_turns(self) -> int | None:
        return self._limits.max_turns if self._limits else None

    def check_price(self, model: str | None, keys: str = "agent.model, --codereval-model") -> None:
        """Raise AgentError(UNPRICED), before anything is spent, when a budget needs a price that is not known.

        `keys` are where the model is named.
        """
        if self._needs_prices and not self._prices.knows(model):
            named = f"the price of the model {model!r} is not known" if model else "the agent's model is not named"
            raise AgentError(
                Cause.UNPRICED,
                f"{named}, so a budget in dollars cannot be kept; name it ({keys}) and give its price in the ini "
                "setting codereval_prices",
            )

    def begin_run(self) -> None:
        """Start to count turns anew: the cap is for each run of the agent."""
        with self._lock:
            self._turns_before = len(self._turns)

    def turns(self, attempt: int) -> int:
        """How many turns an attempt took."""
        with self._lock:
            return sum(1 for number, _ in self._turns if number == attempt)

    def exceeded_alone(self, attempt: int) -> bool:
        """Whether what this attempt used is over a cap, whatever those before it used."""
        with self._lock:
            return self._over([call for (number, _), call in self._calls.items() if number == attempt]) is not None

    @property
    def _turns_of_run(self) -> int:
        return len(self._turns) - self._turns_before

    def admit(self, main: bool) -> bool:
        """Whether another call of a model may be made."""
        with self._lock:
            if self.stop is None and main and self.max_turns is not None and self._turns_of_run >= self.max_turns:
                self.stop = Stop.TURNS
            return self.stop is None

    def take(self, event: Event) -> None:
        """Count what the event says. Raises AgentError when a cap cannot be kept any more.

        That is UNPRICED, or USAGE_UNKNOWN when a whole reply does not tell what it used.
        """
        if isinstance(event, ModelFault):
            self._take_fault(event)
        if not isinstance(event, ModelCall):
            return
        with self._lock:
            key = (event.attempt, event.id)
            self._calls[key] = event
            if event.complete and event.parent_id is None and key not in self._senseless:
                self._turns.add(key)
            else:
                self._turns.discard(key)
            passed = self._over(self._calls.values()) or self._one_turn_more()
            self.stop = self.stop or passed
            self.overrun = self.overrun or passed is not None
        if event.complete:
            self._refuse_unknown(event)

    def _take_fault(self, fault: ModelFault) -> None:
        """A reply that makes no sense is no turn, even when it came to its end."""
        with self._lock:
            key = (fault.attempt, fault.id)
            self._broken.add(key)
            if fault.cause is Cause.API_FAULT:
                self._senseless.add(key)
                self._turns.discard(key)

    def refuse_unknown(self, *, cut: bool = False) -> None:
        """Raise AgentError(USAGE_UNKNOWN or UNPRICED) when a cap was not reached only as far as is known.

        Replies that broke off count by what they told, and the sums are marked as incomplete. So do those that were
        under way when the agent was stopped: at a cap, or (`cut`) because the outcome was certain.
        """
        if self.stop is not None:
            return
        for key, call in list(self._calls.items()):
            if key not in self._broken and (call.complete or not cut):
                self._refuse_unknown(call)

    def _refuse_unknown(self, call: ModelCall) -> None:
        """Raise AgentError when a cap counts something that the call does not tell."""
        unpriced = self._needs_prices and self.cost(call) is None
        counted = BUCKETS if unpriced else self._counted
        untold = [name for name in counted if getattr(call.usage, name) is None]
        if not untold and not unpriced:
            return
        if unpriced and call.usage.extras:
            raise AgentError(
                Cause.UNPRICED,
                "a call of the model used more than its tokens tell (such as a web search of the API, or a cache for "
                f"an hour), so {' and '.join(self._caps)} cannot be kept",
            )
        if unpriced and call.model is not None:
            self.check_price(call.model)
            if not untold:
                raise AgentError(
                    Cause.UNPRICED,
                    f"the price of cached prompts of the model {call.model!r} is not known, so a budget in dollars "
                    "cannot be kept; give all four of its prices in the ini setting codereval_prices",
                )
        missing = ", ".join(untold or ["model"])
        raise AgentError(
            Cause.USAGE_UNKNOWN,
            f"a call of the model{f' {call.model!r}' if call.model else ''} does not tell its {missing}, so "
            f"{' and '.join(self._caps)} cannot be kept",
        )

    @property
    def _caps(self) -> list[str]:
        """The caps on tokens and dollars, by the names that an author knows."""
        limits = self._limits
        named = [f"run_limits.{stop}" for stop in Stop if stop.forces_fail and getattr(limits, stop, None) is not None]
        return named + (["--codereval-budget-usd"] if self._session_cap else [])

    @functools.cached_property
    def _counted(self) -> tuple[str, ...]:
        """The buckets of tokens that the caps count."""
        limits = self._limits
        if limits is None:
            return ()
        into = limits.max_input_tokens is not None or limits.max_total_tokens is not None
        out = limits.max_output_tokens is not None or limits.max_total_tokens is not None
        counted = {
            "input_tokens": into,
            "cache_creation_tokens": into and limits.count_cache_creation,
            "cache_read_tokens": into and limits.count_cached_input,
            "output_tokens": out,
        }
        return tuple(name for name, is_counted in counted.items() if is_counted)

    def _one_turn_more(self) -> Stop | None:
        """An agent that did not ask `admit` stops at its first reply beyond the cap."""
        return Stop.TURNS if self.max_turns is not None and self._turns_of_run > self.max_turns else None

    def _over(self, calls: Iterable[ModelCall]) -> Stop | None:
        """The cap on tokens or cost that these calls go over."""
        limits = self._limits
        if limits is None:
            return None
        spent = spending(calls, self._prices)
        used = spent.for_budget(
            count_cached_input=limits.count_cached_input, count_cache_creation=limits.count_cache_creation
        )
        caps = (
            (Stop.INPUT_TOKENS, used.input_tokens, limits.max_input_tokens),
            (Stop.OUTPUT_TOKENS, used.output_tokens, limits.max_output_tokens),
            (Stop.TOTAL_TOKENS, used.total_tokens, limits.max_total_tokens),
            (Stop.COST, spent.cost_usd, limits.max_usd),
        )
        return next((stop for stop, value, cap in caps if cap is not None and value > cap), None)

    @property
    def spending(self) -> Spending:
        """What the trial has used so far."""
        with self._lock:
            return spending(self._calls.values(), self._prices)

    def cost(self, call: ModelCall) -> float | None:
        """The cost of one call, None when it is not known."""
        return self._prices.cost(call.model, call.usage)

    def least_cost(self, call: ModelCall) -> float | None:
        """The cost of what is known of one call, None when nothing is."""
        return self._prices.least_cost(call.model, call.usage)
