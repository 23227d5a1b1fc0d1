"""Sums of usage: exact where all is known, and saying so where it is not."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.trajectory.model import ModelCall, Usage
from pytest_codereval.trajectory.prices import BUCKETS, PriceList
from pytest_codereval.trajectory.spending import Spending, spending

PRICES = PriceList(["priced 3 15 3.75 0.3"])


def call(
    *tokens: int | None, model: str | None = "priced", complete: bool = True, cost: float | None = None
) -> ModelCall:
    return ModelCall("id", model, Usage(*tokens, cost_usd=cost), complete)


def test_all_is_known() -> None:
    total = spending([call(1, 2, 3, 4), call(10, 20, 30, 40)], PRICES)
    assert (total.input_tokens, total.cache_creation_tokens, total.cache_read_tokens, total.output_tokens) == (
        (11, 22, 33, 44)
    )
    assert total.usage == Usage(11, 22, 33, 44, float(Decimal("785.4") / 1_000_000))
    assert total.cost_usd == total.usage.cost_usd
    assert total.tokens_complete
    assert total.cost_complete
    assert total.calls == 2


def test_no_call_told_anything() -> None:
    nothing = spending([], PRICES)
    assert nothing == Spending()
    assert nothing.usage == Usage()
    silent = spending([ModelCall("id", "priced")], PRICES)
    assert silent.usage == Usage()
    assert (silent.calls, silent.tokens_complete, silent.cost_complete) == (1, False, False)
    assert (silent.output_tokens, silent.cost_usd, silent.usage.cost_usd) == (0, 0.0, None)


def test_an_unpriced_call_leaves_the_cost_incomplete() -> None:
    total = spending([call(1_000_000, 0, 0, 0), call(5, 0, 0, 0, model="other")], PRICES)
    assert (total.cost_usd, total.cost_complete) == (3.0, False)
    assert (total.input_tokens, total.tokens_complete) == (1_000_005, True)
    assert spending([call(5, 0, 0, 0, model=None)], PRICES).usage == Usage(5, 0, 0, 0, None)


def test_a_call_that_was_cut_leaves_both_incomplete() -> None:
    total = spending([call(1, 0, 0, 1), call(1, 0, 0, 1, complete=False, cost=0.5)], PRICES)
    assert (total.tokens_complete, total.cost_complete) == (False, False)
    assert total.input_tokens == 2
    assert total.cost_usd == 0.500018


def test_a_missing_bucket_leaves_the_tokens_incomplete() -> None:
    total = spending([call(1, 0, 0, 1), call(1, 0, None, 1, cost=0.25)], PRICES)
    assert total.usage == Usage(2, 0, 0, 2, 0.250018)
    assert (total.tokens_complete, total.cost_complete) == (False, True)


def test_the_caps_count_cached_prompts_where_asked() -> None:
    total = spending([call(1, 20, 300, 4000)], PRICES)
    assert total.for_budget(False, False) == (1, 4000, 4001)
    assert total.for_budget(count_cached_input=True, count_cache_creation=False) == (301, 4000, 4301)
    assert total.for_budget(count_cached_input=False, count_cache_creation=True) == (21, 4000, 4021)
    assert total.for_budget(True, True).total_tokens == 4321


def test_a_call_with_extras_costs_at_least_what_its_tokens_do() -> None:
    searched = ModelCall("id", "priced", Usage(1_000_000, 0, 0, 0, extras=True))
    total = spending([searched, call(1_000_000, 0, 0, 0)], PRICES)
    assert (total.cost_usd, total.cost_complete, total.tokens_complete, total.usage.extras) == (6.0, False, True, True)
    charged = ModelCall("id", "priced", Usage(1_000_000, 0, 0, 0, 3.01, extras=True))
    total = spending([charged], PRICES)
    assert (total.cost_usd, total.cost_complete) == (3.01, True)


def test_small_costs_do_not_drift() -> None:
    assert spending([call(cost=0.1)] * 3, PRICES).cost_usd == 0.3
    assert spending([call(cost=0.0021)] * 10_000, PRICES).cost_usd == 21.0


tokens = st.none() | st.integers(0, 10**9)
cents = st.none() | st.integers(1, 10**6).map(lambda count: count / 100)
calls = st.lists(
    st.builds(
        ModelCall,
        st.just("id"),
        st.sampled_from(["priced", "other", None]),
        st.builds(Usage, tokens, tokens, tokens, tokens, cents),
        st.booleans(),
    )
)


@settings(max_examples=50, deadline=None)
@given(calls, calls)
def test_sums_hold_for_any_calls(some: list[ModelCall], more: list[ModelCall]) -> None:
    both, first, second = (spending(part, PRICES) for part in (some + more, some, more))
    for name in (*BUCKETS, "cost_usd"):
        parts = [value for part in (first, second) if (value := getattr(part.usage, name)) is not None]
        value = getattr(both.usage, name)
        assert (value is None) == (not parts)
        assert value is None or abs(value - sum(parts)) <= 1e-9 * abs(value)
    assert both.tokens_complete == (first.tokens_complete and second.tokens_complete)
    assert both.cost_complete == (first.cost_complete and second.cost_complete)
    assert both.calls == len(some) + len(more)


@settings(max_examples=50, deadline=None)
@given(calls)
def test_a_budget_sees_no_more_than_was_told(told: list[ModelCall]) -> None:
    total = spending(told, PRICES)
    most = total.for_budget(True, True)
    assert most.total_tokens == (total.usage.total_tokens or 0)
    assert total.for_budget(False, False).input_tokens <= most.input_tokens
