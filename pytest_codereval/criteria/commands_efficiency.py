"""Criterion type commands_efficiency: whether the agent needed more tool calls than expected."""

from __future__ import annotations

from ..task.command_models import CommandsEfficiency
from .contract import Evidence, Judgement


def check(criterion: CommandsEfficiency, evidence: Evidence) -> Judgement:
    """Score expected / max(actual, expected); 0 when there was no call, or no agent."""
    if evidence.trajectory is None:
        return Judgement(0.0, "no agent ran, so nothing is known about its commands")
    actual = len(evidence.trajectory.tool_calls)
    most = criterion.expected_commands
    score = most / max(actual, most) if actual else 0.0
    calls = "1 tool call" if actual == 1 else f"{actual} tool calls"
    return Judgement(score, f"{calls}, expected {'1' if most == 1 else f'1 to {most}'}")
