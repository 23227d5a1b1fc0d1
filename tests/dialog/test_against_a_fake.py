"""The simulated user over HTTP, against a fake API: exact usage, faults, and what is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.trajectory.model import ModelCall, ModelFault

from ..fakes import FakeAnthropic, fault, repeat, say
from .talks import soon, talk

KEY = "fake-key-of-the-simulated-user"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def playing(monkeypatch: pytest.MonkeyPatch, *turns: Any) -> FakeAnthropic:
    fake = FakeAnthropic(list(turns), key=KEY)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
    return fake


def converse(dialog: Any, *said: str) -> list[str | None]:
    try:
        return [dialog.opening(soon()), *(dialog.answer(text, soon()) for text in said)]
    finally:
        dialog.close()


def test_three_turns_cost_what_the_ledger_says(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ModelCall | ModelFault] = []
    with playing(monkeypatch, say("I need a greeting."), say("Good morning."), say("<<<END>>>")) as fake:
        dialog = talk({"model": "eu.anthropic.claude-sonnet-4-6-v1:0"}, prompt="", tell=told.append)
        assert converse(dialog, "Which?", "Done.") == ["I need a greeting.", "Good morning.", None]
    assert [request.body["model"] for request in fake.requests] == ["claude-sonnet-4-6"] * 3
    assert not any("tools" in request.body for request in fake.requests)
    calls = [call for call in told if isinstance(call, ModelCall)]
    assert len({call.id for call in calls}) == len(fake.ledger) == 3
    assert all(call.complete for call in calls)
    used = [
        (u.input_tokens, u.cache_creation_tokens, u.cache_read_tokens, u.output_tokens)
        for u in (call.usage for call in calls)
    ]
    assert used == [
        (c.input_tokens, c.cache_creation_tokens, c.cache_read_tokens, c.output_tokens) for c in fake.ledger
    ]


FAULTS: list[tuple[int, Any, str]] = [
    (1, repeat(fault(529), 9), "overloaded"),
    (3, repeat(fault("html"), 9), "api_fault"),
    (1, repeat(fault("cut", after=3), 9), "connection"),
    (3, repeat(fault(429, retry_after=0.01), 9), "rate_limited"),
    (1, fault(401), "authentication"),
    (3, fault(402), "billing"),
    (1, fault(400), "bad_request"),
    (1, fault("refusal"), "stopped for refusal"),
    (3, fault("refusal"), "stopped for refusal"),
    (3, fault("max_tokens"), "stopped for max_tokens"),
    (1, fault("context_full"), "prompt is too long"),
    (3, say(""), "empty"),
]


@pytest.mark.parametrize(("turn", "wrong", "told"), FAULTS, ids=[f"{told}-{turn}" for turn, _, told in FAULTS])
def test_a_fault_is_the_simulated_users_own(monkeypatch: pytest.MonkeyPatch, turn: int, wrong: Any, told: str) -> None:
    calls: list[ModelCall | ModelFault] = []
    with playing(monkeypatch, *[say("go on")] * (turn - 1), wrong):
        dialog = talk({}, prompt="", tell=calls.append)
        with pytest.raises(AgentError) as caught:
            converse(dialog, "a", "b", "c")
    assert caught.value.cause is Cause.SIMULATED_USER
    assert f"message {turn} of the simulated user: " in str(caught.value)
    assert told in str(caught.value)
    assert KEY not in str(caught.value)
    assert len([call for call in calls if isinstance(call, ModelCall) and call.complete]) >= turn - 1


def test_what_passes_by_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[ModelCall | ModelFault] = []
    with playing(monkeypatch, fault(529), fault("malformed_json"), say("b")):
        dialog = talk({}, tell=told.append)
        assert converse(dialog, "x") == ["hi", "b"]
    faults = [call.cause for call in told if isinstance(call, ModelFault)]
    assert faults == [Cause.OVERLOADED, Cause.API_FAULT]


def test_a_silent_api_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(monkeypatch, fault("hang")):
        dialog = talk({}, prompt="")
        with pytest.raises(AgentError, match="message 1 of the simulated user: turn_timeout") as caught:
            dialog.opening(clock.monotonic() + 0.5)
        dialog.close()
    assert caught.value.cause is Cause.SIMULATED_USER


def test_without_a_key_nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(AgentError, match="ANTHROPIC_API_KEY") as caught:
        talk({})
    assert caught.value.cause is Cause.NO_CREDENTIALS


def test_the_agent_cannot_make_the_conversation_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(monkeypatch, say("b"), say("c")) as fake:
        dialog = talk({})
        assert converse(dialog, "\ud800" + "x" * 2_000_000, "y") == ["hi", "b", "c"]
    assert len(str(fake.requests[-1].body)) < 120_000
