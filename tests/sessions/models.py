"""What sessions with a model need: an agent, a fake that plays its model, prices that come out even."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pytest

from ..fakes import Charged, FakeAnthropic, Request, say
from ..fakes.anthropic import texts_of
from ..fakes.script import USED_UP
from ..fakes.turns import Entry, ScriptEntry

MODEL = "some-model"
PRICES = f"codereval_prices={MODEL} 100 500 200 10"
AGENT: dict[str, Any] = {"type": "anthropic", "model": MODEL}
OPTIONS = ("-o", PRICES, "-o", "codereval_patience=0")


def cost(charged: list[Charged]) -> Decimal:
    """What the fake charged, by PRICES, in US dollars."""
    total = sum(
        (c.input_tokens or 0) * 100
        + (c.output_tokens or 0) * 500
        + (c.cache_creation_tokens or 0) * 200
        + (c.cache_read_tokens or 0) * 10
        for c in charged
    )
    return Decimal(total) / 1_000_000


def ask(fake: FakeAnthropic, monkeypatch: pytest.MonkeyPatch) -> FakeAnthropic:
    """Let the agents and simulated users of sessions ask this fake."""
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "fake-key-of-a-test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
    return fake


class Scripts:
    """What the fake plays: to each prompt its own entries, in order over all conversations that begin with it."""

    def __init__(self, scripts: Mapping[str, Sequence[ScriptEntry | list[ScriptEntry]]]) -> None:
        self._left = {
            prompt: [one for entry in entries for one in (entry if isinstance(entry, list) else [entry])]
            for prompt, entries in scripts.items()
        }
        self._lock = threading.Lock()
        self.asked: list[tuple[str, float]] = []

    def __call__(self, request: Request) -> Entry:
        prompt = first_prompt(request)
        with self._lock:
            self.asked.append((prompt, request.time))
            left = self._left.get(prompt, [])
            entry = left.pop(0) if left else say(USED_UP)
        return entry(request) if callable(entry) else entry

    def calls(self, prompt: str) -> int:
        """How many calls the conversations with this prompt made."""
        return sum(1 for asked, _ in self.asked if asked == prompt)


def first_prompt(request: Request) -> str:
    """What the user said first."""
    return texts_of(request.body["messages"][0]["content"])[0]
