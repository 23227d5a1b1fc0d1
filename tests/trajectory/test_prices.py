"""Prices: computed by hand, found under the names of gateways, and unknown rather than those of another model."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.trajectory.model import Usage
from pytest_codereval.trajectory.prices import PriceList

LISTED = PriceList()
SMALL = Usage(100, 200, 1000, 50)


def test_the_buckets_of_a_prompt_are_priced_apart() -> None:
    by_hand = (100 * 5 + 200 * 6.25 + 1000 * 0.5 + 50 * 25) / 1_000_000
    assert LISTED.cost("claude-opus-4-5", SMALL) == pytest.approx(by_hand, abs=1e-12)
    ours = PriceList(["claude-opus-4-5 5 25 6.25 0.5"])
    assert ours.cost("claude-opus-4-5", SMALL) == LISTED.cost("claude-opus-4-5", SMALL)


def test_cached_tokens_of_openai_are_priced_apart() -> None:
    by_hand = (100 * 1.25 + 1000 * 0.125 + 50 * 10) / 1_000_000
    assert LISTED.cost("gpt-5", Usage(100, 0, 1000, 50)) == pytest.approx(by_hand, abs=1e-12)


def test_a_long_prompt_costs_more_for_all_its_tokens() -> None:
    short, long = Usage(100_000, 50_000, 50_000, 10), Usage(100_000, 50_000, 50_001, 10)
    assert LISTED.cost("claude-sonnet-4-5", short) == pytest.approx((3e5 + 50_000 * 3.75 + 50_000 * 0.3 + 150) / 1e6)
    assert LISTED.cost("claude-sonnet-4-5", long) == pytest.approx((6e5 + 50_000 * 7.5 + 50_001 * 0.6 + 225) / 1e6)


@pytest.mark.parametrize(
    ("model", "dollars"),
    [
        ("claude-opus-4-5-20251101", 5),
        ("CLAUDE-OPUS-4-5", 5),
        ("claude-opus-4-5[1m]", 5),
        ("claude-opus-4-20250514", 15),
        ("anthropic/claude-opus-4-5", 5),
        ("litellm_proxy/anthropic/claude-opus-4-5", 5),
        ("openrouter/anthropic/claude-opus-4.5", 5),
        ("openrouter/anthropic/claude-opus-4.5:batch", 2.5),
        ("global.anthropic.claude-opus-4-5-20251101-v1:0", 5),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", 5.5),
        ("bedrock/converse/us.anthropic.claude-opus-4-5-20251101-v1:0", 5.5),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-5-20251101-v1:0", 5.5),
        ("claude-opus-4-5@20251101", 5),
        ("vertex_ai/claude-opus-4-5@20251101", 5),
        ("projects/p/locations/l/publishers/anthropic/models/claude-opus-4-5@20251101", 5),
        ("gpt-5-2025-08-07", 1.25),
        ("gpt-5-20250807", 1.25),
        ("openai/gpt-5", 1.25),
        ("azure/gpt-5", 1.25),
        ("gpt-4o", 2.5),
        ("gpt-4o-2024-05-13", 5),
        ("gemini/gemini-2.5-flash", 0.3),
        ("models/gemini-2.5-flash", 0.3),
    ],
)
def test_a_model_is_known_by_the_names_of_gateways(model: str, dollars: float) -> None:
    assert LISTED.knows(model)
    assert LISTED.cost(model, Usage(100_000, 0, 0, 0)) == pytest.approx(dollars / 10)


@pytest.mark.parametrize(
    "model",
    """
    claude-opus-99 claude-opus-4-50 claude-opus-4-10 claude-opus-4-1-mini claude-opus-4-5-fast claude-sonnet-50
    claude-haiku-4-55 claude-4-opus-large claude-3-opus-2 claude-5-opusculum claude opus sonnet claude-latest
    us.anthropic.claude-opus-4-50-v1:0 us.anthropic.claude-opus-99-v1:0 openrouter/anthropic/claude-opus-99
    vertex_ai/claude-opus-4-10@20260101 my-claude-opus-4-5 gpt-5-ultra gpt-5.99 gpt-4o-2030-01-01 o17 o1-huge
    gemini-2.5-proximity gemini-3.6-flash-ultra gemini-1.5-flash-8c deepseek-chat-v9 fake-model
    application-inference-profile/abc nobody/claude-opus-4-5-x / // a/ /a [1m]
    """.split(),
)
def test_an_unknown_model_is_not_taken_for_one_of_a_like_name(model: str) -> None:
    assert not LISTED.knows(model)
    assert LISTED.cost(model, SMALL) is None


def test_no_listed_name_with_something_more_has_the_price_of_the_shorter_one() -> None:
    from genai_prices.data import providers

    for provider in providers:
        if provider.id not in ("anthropic", "openai", "google"):
            continue
        names = {model.id for model in provider.models}
        for name in names:
            for more in ("0", "9", "-9", ".9", "-9-9", "-turbo-x", "-mega"):
                if not any(
                    model.is_match(name + more) and name + more in str(model.match) for model in provider.models
                ):
                    assert not LISTED.knows(f"{provider.id}/{name}{more}"), name + more


def test_a_provider_is_asked_for_its_own_models_only() -> None:
    assert LISTED.knows("openai/gpt-5")
    assert LISTED.knows("gemini/gemini-2.5-pro")
    assert LISTED.knows("anthropic/claude-opus-4-5")
    assert not LISTED.knows("anthropic/gpt-5")
    assert not LISTED.knows("nobody/gpt-5")
    assert not LISTED.knows(None)
    assert not LISTED.knows("  ")


@pytest.mark.parametrize(
    ("model", "usage"),
    [
        (None, SMALL),
        ("claude-opus-4-5", Usage(100, 0, 0, 50, extras=True)),
        ("claude-opus-4-5", Usage(None, 0, 0, 50)),
        ("claude-opus-4-5", Usage(100, None, 0, 50)),
        ("claude-opus-4-5", Usage(100, 0, None, 50)),
        ("claude-opus-4-5", Usage(100, 0, 0, None)),
        ("claude-opus-4-5", Usage(-1, 0, 0, 0)),
        ("claude-opus-4-5", Usage(10**400, 0, 0, 0)),
        ("gpt-5", Usage(100, 1, 0, 0)),
        ("gpt-5-pro", Usage(100, 0, 1, 0)),
        ("gpt-5-pro", Usage(100, 0, 0, 1, float("nan"))),
    ],
)
def test_what_is_not_known_has_no_price(model: str | None, usage: Usage) -> None:
    if usage.cost_usd is None:
        assert LISTED.cost(model, usage) is None
    else:
        assert LISTED.cost(model, usage) == pytest.approx((100 * 15 + 120) / 1e6)


def test_what_the_provider_charged_beats_every_list() -> None:
    ours = PriceList(["claude-* 1 1"])
    assert ours.cost("claude-opus-4-5", Usage(100, 0, 0, 0, cost_usd=0.125)) == 0.125
    assert ours.cost(None, Usage(cost_usd=0.125)) == 0.125
    assert ours.cost(None, Usage(cost_usd=0.0)) == 0.0


def test_a_charge_of_nothing_for_tokens_is_a_gateway_that_does_not_know() -> None:
    used = Usage(1_000_000, 0, 0, 0, cost_usd=0.0)
    assert LISTED.cost("no-such-model", used) is None
    assert LISTED.cost("claude-opus-4-5", used) == 5
    assert PriceList(["no-such-model 0 0"]).cost("no-such-model", used) == 0


class TestLines:
    def test_the_authors_prices_go_first(self) -> None:
        ours = PriceList(["claude-opus-4-5 1 2"])
        assert ours.cost("claude-opus-4-5", Usage(1_000_000, 0, 0, 1_000_000)) == 3

    @pytest.mark.parametrize(
        "model",
        [
            "my-model",
            "MY-model",
            "my-model-20260101",
            "my-model@20260101",
            "us.anthropic.my-model-20260101-v1:0",
            "openrouter/vendor/my-model",
            "bedrock/anthropic.my-model-v1:0",
        ],
    )
    def test_a_line_holds_for_editions_and_gateways(self, model: str) -> None:
        assert PriceList(["my-model 3 15"]).cost(model, Usage(1_000_000, 0, 0, 0)) == 3

    @pytest.mark.parametrize("model", ["my-model-2", "my-model-mini", "my-models", "x-my-model"])
    def test_a_line_holds_for_no_other_model(self, model: str) -> None:
        assert not PriceList(["my-model 3 15"]).knows(model)

    def test_a_name_goes_before_a_glob_and_the_first_glob_counts(self) -> None:
        ours = PriceList(["my-* 1 1", "my-m* 2 2", "my-model 3 3", "", "# a comment"])
        assert [ours.cost(model, Usage(1_000_000, 0, 0, 0)) for model in ("my-model", "my-mo", "my-x")] == [3, 1, 1]

    def test_the_cache_is_unknown_until_it_has_a_price(self) -> None:
        ours = PriceList(["short 3 15", "long 3 15 4 0.5", "free 0 0 0 0"])
        assert ours.cost("short", Usage(1, 0, 0, 1)) == pytest.approx(18e-6)
        assert ours.cost("short", Usage(1, 1, 0, 1)) is None
        assert ours.cost("short", Usage(1, 0, 1, 1)) is None
        assert ours.cost("short", Usage(1, None, 0, 1)) is None
        assert ours.cost("long", Usage(2, 3, 5, 7)) == pytest.approx((2 * 3 + 3 * 4 + 5 * 0.5 + 7 * 15) / 1e6)
        assert ours.cost("free", Usage(1, None, 5, None)) == 0

    @pytest.mark.parametrize(
        "line",
        [
            "m",
            "m 3",
            "m 3 15 4",
            "m 3 15 4 1 1",
            "m $3 15",
            "m 3 -1",
            "m nan 1",
            "m inf 1",
            "m 1e3 1",
            "m 3,5 1",
            "1 2",
        ],
    )
    def test_a_bad_line_says_what_was_expected(self, line: str) -> None:
        with pytest.raises(CoderEvalError, match=r"codereval_prices: .*expected MODEL INPUT OUTPUT \[CACHE_WRITE"):
            PriceList(["good 1 2", line])

    def test_two_prices_of_one_model_are_refused(self) -> None:
        assert PriceList(["m 1 2", "M 1 2"]).knows("m")
        with pytest.raises(CoderEvalError, match="another price in an earlier line"):
            PriceList(["m 1 2", "m 1 3"])


def test_the_list_is_loaded_when_first_needed_and_opens_no_connection() -> None:
    program = """if True:
        import socket, sys
        from pytest_codereval.trajectory.model import Usage
        from pytest_codereval.trajectory.prices import PriceList
        def refuse(*_): raise AssertionError("a connection")
        socket.socket.connect = refuse
        assert PriceList(["mine 1 2"]).cost("mine", Usage(1, 0, 0, 0)) == 1e-6
        assert "genai_prices" not in sys.modules
        assert PriceList().knows("claude-opus-4-5")
        assert "genai_prices" in sys.modules
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
