"""What all trials of a session share, over all workers: prices, the budget, and how many may ask a provider at once."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from .. import clock
from ..errors import AgentError, Cause, TrialError
from ..trajectory.prices import PriceList

if TYPE_CHECKING:
    from ..store.ledger import Ledger
    from ..store.turnstile import Turnstile

Spender = Literal["agent", "simulated user", "judge"]


class Session:
    """`folder` is one that all workers share. `budget_usd` is the cap on what all trials may spend together,
    `judge_budget_usd` the one on what judges may spend of it.

    `most_at_once` says for a provider how many trials may use it at the same time. `patience` multiplies the waits
    before a further attempt.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        prices: PriceList | None = None,
        budget_usd: float | None = None,
        judge_budget_usd: float | None = None,
        most_at_once: Mapping[str, int] = MappingProxyType({}),
        patience: float = 1.0,
    ) -> None:
        self.prices = prices or PriceList()
        self.patience = patience
        self._folder = folder
        self._budget_usd = budget_usd
        self._judge_budget_usd = judge_budget_usd
        self._most_at_once = most_at_once
        self._turnstiles: dict[str, Turnstile] = {}
        self._turns = 0

    @property
    def has_budget(self) -> bool:
        return self._budget_usd is not None

    @property
    def has_judge_budget(self) -> bool:
        return self._judge_budget_usd is not None

    @functools.cached_property
    def ledger(self) -> Ledger | None:
        """What was spent so far, by all workers; None without a folder."""
        if self._folder is None:
            return None
        from ..store.ledger import Ledger

        return Ledger(self._folder, self._budget_usd)

    def refuse_when_spent(self) -> None:
        """Raise TrialError(BUDGET_SPENT) when the session's budget is used up."""
        if self.has_budget and self.ledger is not None and (reason := self.ledger.exhausted()):
            raise TrialError(Cause.BUDGET_SPENT, reason)

    def refuse_judge_when_spent(self) -> None:
        """Raise TrialError(BUDGET_SPENT) when the budget of the session, or that of its judges, is used up."""
        self.refuse_when_spent()
        if self._judge_budget_usd is None or self.ledger is None:
            return
        spent = self.ledger.state().by_kind.get("judge", Decimal(0))
        if spent >= Decimal(str(self._judge_budget_usd)):
            reason = f"the budget of the session's judges of ${self._judge_budget_usd:g} is used up: ${spent:f} spent"
            raise TrialError(Cause.BUDGET_SPENT, reason)

    def spent(self, trial: str, spender: Spender, cost_usd: float | None, complete: bool) -> None:
        """Enter what one call of a model cost; None when that is not known."""
        if self.ledger is not None:
            self.ledger.add(trial, spender, cost_usd or 0.0, complete and cost_usd is not None)

    @contextlib.contextmanager
    def turn(self, provider: str | None, patience: float) -> Iterator[None]:
        """Wait until the trial may use the provider of its model, as long as the block lasts.

        Raises AgentError(RATE_LIMITED) when that takes longer than `patience` seconds.
        """
        if provider is None or self._folder is None:
            yield
            return
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._turnstile(provider).enter(clock.monotonic() + patience))
            except TimeoutError:
                raise AgentError(
                    Cause.RATE_LIMITED, f"no turn with {provider} came within {patience:g} s: its rate is limited"
                ) from None
            self._turns += 1
            stack.callback(self._end_turn)
            yield

    @contextlib.contextmanager
    def turn_of_judge(self, provider: str | None, patience: float) -> Iterator[None]:
        """As `turn`. A judge between two turns of a dialogue goes along with its trial: who waits holds nothing."""
        with self.turn(None if self._turns else provider, patience):
            yield

    def _end_turn(self) -> None:
        self._turns -= 1

    def limited(self, provider: str | None, retry_after: float | None) -> None:
        """The provider limits the rate: all workers wait, and fewer trials use it at once."""
        if provider is not None and self._folder is not None:
            self._turnstile(provider).report_limited(retry_after)

    def unlimited(self, provider: str | None) -> None:
        """A trial came through without meeting a limit."""
        if provider is not None and self._folder is not None:
            self._turnstile(provider).report_success()

    def _turnstile(self, provider: str) -> Turnstile:
        if provider not in self._turnstiles:
            from ..store.turnstile import FIRST_PAUSE, Turnstile

            assert self._folder is not None
            most = self._most_at_once.get(provider)
            self._turnstiles[provider] = Turnstile(self._folder, provider, most, FIRST_PAUSE * self.patience)
        return self._turnstiles[provider]
