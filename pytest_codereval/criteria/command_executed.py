"""Criterion type command_executed: how many tool calls look as the author described them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..sandbox.workspace import Unreadable
from ..task.command_models import CommandExecuted
from ..text import shorten
from ..trajectory.model import ToolCall
from .command_text import haystacks
from .contract import Evidence, Judgement
from .patterns import search
from .reading import fail_when_unreadable

SHOWN_CALLS = 10
SHOWN_LENGTH = 200


@fail_when_unreadable
def check(criterion: CommandExecuted, evidence: Evidence) -> Judgement:
    """Score by the number of matching calls: within min and max 1, else 0; without a max the fraction of min.

    Without a trajectory the score is 0, also for a guard: nobody knows what was run.
    """
    if evidence.trajectory is None:
        return Judgement(0.0, "no agent ran, so nothing is known about its commands")
    calls = evidence.trajectory.tool_calls
    matching = [call for call in calls if _matches(criterion, call)]
    return Judgement(
        _score(len(matching), criterion.min_count, criterion.max_count),
        f"{len(matching)} of {len(calls)} tool calls match; expected {_expectation(criterion)}",
        _details(matching, calls),
    )


def _matches(criterion: CommandExecuted, call: ToolCall) -> bool:
    if criterion.tool_name is not None and call.name != criterion.tool_name:
        return False
    if criterion.require_success and call.status != "success":
        return False
    if criterion.command_pattern is None and criterion.exclude_pattern is None:
        return True
    texts = haystacks(call)
    if criterion.exclude_pattern is not None and _found(criterion.exclude_pattern, texts):
        return False
    return criterion.command_pattern is None or _found(criterion.command_pattern, texts)


def _found(pattern: str, texts: Sequence[str]) -> bool:
    return any(search(pattern, text, re.DOTALL) for text in texts)


def _score(count: int, least: int, most: int | None) -> float:
    if most is not None:
        return float(least <= count <= most)
    return min(1.0, count / least) if least else 1.0


def _expectation(criterion: CommandExecuted) -> str:
    if criterion.max_count is None:
        return f"at least {criterion.min_count}"
    if criterion.max_count == criterion.min_count:
        return f"exactly {criterion.min_count}"
    return f"{criterion.min_count} to {criterion.max_count}"


def _details(matching: Sequence[ToolCall], calls: Sequence[ToolCall]) -> str:
    shown = matching or calls
    if not shown:
        return "the agent called no tool"
    title = "matching calls:" if matching else "no call matches; the calls were:"
    lines = [title, *(_line(call) for call in shown[:SHOWN_CALLS])]
    if len(shown) > SHOWN_CALLS:
        lines.append(f"... and {len(shown) - SHOWN_CALLS} more")
    return "\n".join(lines)


def _line(call: ToolCall) -> str:
    try:
        text = shorten(haystacks(call)[0], SHOWN_LENGTH).replace("\n", "\\n")
    except Unreadable:
        text = "(parameters that cannot be shown)"
    return f"  {call.name} [{call.status}] {text}"
