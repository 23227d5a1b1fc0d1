"""The trajectory of a trial, in one vocabulary for all agents.

Tools carry the names that Claude Code gave them (Bash, Read, Write, Edit, Glob, Grep, Skill, WebFetch, ...).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

ToolStatus = Literal["success", "error", "unknown"]


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """One call of a tool. Times are seconds since the epoch; `attempt` counts from 1."""

    id: str
    name: str
    parameters: Mapping[str, object]
    status: ToolStatus
    output: str = ""
    exit_status: int | None = None
    started: float = 0.0
    ended: float | None = None
    attempt: int = 1
    parent_id: str | None = None


@dataclasses.dataclass(frozen=True)
class Message:
    """Text of the agent or of its user."""

    role: Literal["user", "assistant"]
    text: str
    time: float = 0.0
    attempt: int = 1


@dataclasses.dataclass(frozen=True)
class Usage:
    """Tokens and cost of a trial. None is unknown, never zero. The three prompt buckets exclude each other."""

    input_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cache_read_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def total_tokens(self) -> int | None:
        parts = (self.input_tokens, self.cache_creation_tokens, self.cache_read_tokens, self.output_tokens)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """All events of a trial in order. `attempt` is the last attempt: verdicts look at no other."""

    events: tuple[ToolCall | Message, ...] = ()
    usage: Usage = dataclasses.field(default_factory=Usage)
    turns: int = 0
    attempt: int = 1

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the last attempt."""
        return tuple(e for e in self.events if isinstance(e, ToolCall) and e.attempt == self.attempt)

    @property
    def final_answer(self) -> str:
        """The last text of the agent in the last attempt, or an empty text."""
        for event in reversed(self.events):
            if isinstance(event, Message) and event.role == "assistant" and event.attempt == self.attempt:
                return event.text
        return ""
