"""Who said what in a conversation, and why it ended."""

from __future__ import annotations

import dataclasses
import enum


class Ending(enum.StrEnum):
    """Why a conversation ended."""

    PROMPTS_USED_UP = "prompts_used_up"
    STOP_TOKEN = "stop_token"
    MAX_TURNS = "max_turns"
    TOKEN_BUDGET = "token_budget"
    COST_BUDGET = "cost_budget"
    EMPTY_REPLY = "empty_reply"
    CRITERIA_PASSED = "criteria_passed"
    STOPPED_EARLY = "stopped_early"
    AGENT_STOPPED = "agent_stopped"
    FAULT = "fault"


@dataclasses.dataclass
class Exchange:
    """What the user said and what the agent replied, None until it did."""

    user: str
    agent: str | None = None


class Transcript:
    """The exchanges so far. The first ending that is told counts."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.ending: Ending | None = None

    def ask(self, text: str) -> str:
        """The user says `text`, which is returned."""
        self.exchanges.append(Exchange(text))
        return text

    def reply(self, text: str) -> None:
        """The agent replies to what the user said last."""
        if self.exchanges:
            self.exchanges[-1].agent = text

    def end(self, ending: Ending) -> None:
        self.ending = self.ending or ending

    def describe(self) -> dict[str, object]:
        """Plain data: `exchanges` as {user, agent} in order, and `ended`, None while it goes on."""
        return {
            "exchanges": [dataclasses.asdict(exchange) for exchange in self.exchanges],
            "ended": self.ending.value if self.ending else None,
        }
