"""Criterion type commands_efficiency: whether the agent needed more tool calls than expected."""

from __future__ import annotations

from ..task.command_models import CommandsEfficiency
from .contract import Evidence, Judgement


def check(criterion: CommandsEfficiency, evidence: Evidence) -> Judgement:
    """Score expected / max(actual, expected); 0 when there was no call, or no agent."""
    if evidence.trajectory is None:
        return Judgement(0.0, "no agent ran, so nothing is known about its commands")
    actual = len(evidence.trajectory.tool_calls)
    score = criterion.expected_commands / max(actual, criterion.expected_commands) if actual else 0.0
    return Judgement(score, f"{actual} tool calls; expected at most {criterion.expected_commands}, and at least one")
