"""The trajectory of a trial, in one vocabulary for all agents.

Tools carry the names that Claude Code gave them (Bash, Read, Write, Edit, Glob, Grep, Skill, WebFetch, ...).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from ..errors import Cause

ToolStatus = Literal["success", "error", "unknown"]


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """One call of a tool. Times are seconds since the epoch; `attempt` counts from 1.

    `parent_id` is the id of the call that started the sub-agent which made this one. A call that has not ended has no
    `ended` and the status `unknown`.
    """

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
    """Tokens and cost of a trial. None is unknown, never zero. The three prompt buckets exclude each other.

    `extras` tells that more was used than the buckets tell, such as a web search of the API or a cache that lasts for
    an hour: a price list gives no more than a part of the cost.
    """

    input_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cache_read_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    extras: bool = False

    @property
    def total_tokens(self) -> int | None:
        parts = (self.input_tokens, self.cache_creation_tokens, self.cache_read_tokens, self.output_tokens)
        known = [part for part in parts if part is not None]
        return sum(known) if known else None


UNKNOWN = Usage()
"""The usage of a call that told nothing."""

NOTHING_USED = Usage(0, 0, 0, 0, 0.0)
"""The usage of a turn for which no model was asked."""


@dataclasses.dataclass(frozen=True)
class ModelCall:
    """One reply of a model, which is the unit of a turn. `id` is the provider's where it is known.

    `complete` tells that the reply came to its end and that its usage is all that it tells; what it does not tell is
    None. `usage.cost_usd` is what the provider charged, None where it does not say. `parent_id` is the id of the tool
    call that started the sub-agent which got the reply, None for the main thread.
    """

    id: str
    model: str | None
    usage: Usage = UNKNOWN
    complete: bool = True
    started: float = 0.0
    ended: float | None = None
    attempt: int = 1
    parent_id: str | None = None


@dataclasses.dataclass(frozen=True)
class ModelFault:
    """A call of a model that gave no reply. `status` is that of HTTP, `retry_after` seconds that the provider asks for.

    `ModelCall` tells what a broken reply used, with the same `id`.
    """

    id: str
    cause: Cause
    message: str
    status: int | None = None
    retry_after: float | None = None
    time: float = 0.0
    attempt: int = 1


Event = ToolCall | Message | ModelCall | ModelFault
"""What an agent tells. A later event with the id of an earlier one of its kind takes that one's place."""


@dataclasses.dataclass(frozen=True)
class Trajectory:
    """All events of a trial in order. `attempt` is the last attempt: verdicts look at no other."""

    events: tuple[Event, ...] = ()
    usage: Usage = dataclasses.field(default_factory=Usage)
    turns: int = 0
    attempt: int = 1

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the last attempt."""
        return tuple(e for e in self.events if isinstance(e, ToolCall) and e.attempt == self.attempt)

    @property
    def last_reply(self) -> str:
        """As `final_answer`, but empty when the agent said nothing to what its user said last."""
        events = [event for event in self.events if isinstance(event, Message) and event.attempt == self.attempt]
        return events[-1].text if events and events[-1].role == "assistant" else ""

    @property
    def final_answer(self) -> str:
        """The last text of the agent in the last attempt, or an empty text."""
        for event in reversed(self.events):
            if isinstance(event, Message) and event.role == "assistant" and event.attempt == self.attempt:
                return event.text
        return ""
