"""What the calls of models used and cost in all, and whether that is all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

from .model import ModelCall, Usage
from .prices import BUCKETS, PriceList


class BudgetTokens(NamedTuple):
    """Tokens as the caps of `run_limits` count them: the total is that of input and output."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


@dataclasses.dataclass(frozen=True)
class Spending:
    """Sums over `calls` replies of models: what is known of them.

    `usage` has None where not one call told anything. `tokens_complete` and `cost_complete` say that nothing is missing
    in the sums; where they are False, the true sum is the one given or a larger one: a call of which not all is known
    costs at least what the known part of it does.
    """

    usage: Usage = dataclasses.field(default_factory=Usage)
    calls: int = 0
    tokens_complete: bool = True
    cost_complete: bool = True

    @property
    def input_tokens(self) -> int:
        """Known tokens of prompts that neither came from a cache nor were written to one."""
        return self.usage.input_tokens or 0

    @property
    def cache_creation_tokens(self) -> int:
        """Known tokens of prompts that were written to a cache."""
        return self.usage.cache_creation_tokens or 0

    @property
    def cache_read_tokens(self) -> int:
        """Known tokens of prompts that came from a cache."""
        return self.usage.cache_read_tokens or 0

    @property
    def output_tokens(self) -> int:
        """Known tokens of replies."""
        return self.usage.output_tokens or 0

    @property
    def cost_usd(self) -> float:
        """Known cost in US dollars."""
        return self.usage.cost_usd or 0.0

    def for_budget(self, count_cached_input: bool, count_cache_creation: bool) -> BudgetTokens:
        """Known tokens as the caps count them: cached prompts and those written to a cache only where asked for."""
        prompt = self.input_tokens
        prompt += self.cache_read_tokens if count_cached_input else 0
        prompt += self.cache_creation_tokens if count_cache_creation else 0
        return BudgetTokens(prompt, self.output_tokens, prompt + self.output_tokens)


def spending(calls: Iterable[ModelCall], prices: PriceList) -> Spending:
    """Sum what `calls` used. Each counts once: of two events of one call give only the later.

    A call that did not come to its end (`complete` is False) leaves both sums incomplete, whatever it told.
    """
    told = list(calls)
    costs = [prices.cost(call.model, call.usage) for call in told]
    least = [prices.least_cost(call.model, call.usage) for call in told]
    ended = all(call.complete for call in told)
    buckets = {name: [getattr(call.usage, name) for call in told] for name in BUCKETS}
    return Spending(
        usage=Usage(
            **{name: _known_sum(counts) for name, counts in buckets.items()},
            cost_usd=_known_cost(least),
            extras=any(call.usage.extras for call in told),
        ),
        calls=len(told),
        tokens_complete=ended and not any(None in counts for counts in buckets.values()),
        cost_complete=ended and None not in costs,
    )


def _known_sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _known_cost(costs: Iterable[float | None]) -> float | None:
    """Summed as decimals, so that cents do not turn into fractions of cents."""
    known = [Decimal(str(cost)) for cost in costs if cost is not None]
    return float(sum(known)) if known else None
