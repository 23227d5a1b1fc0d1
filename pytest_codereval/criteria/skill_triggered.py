"""Criterion type skill_triggered: whether the agent made use of a skill, as expected or not."""

from __future__ import annotations

from collections.abc import Iterator

from ..task.command_models import SkillTriggered
from ..text import shorten
from ..trajectory.model import ToolCall
from .contract import Evidence, Judgement, Verdict

SKILL_TOOL = "Skill"
SHOWN_LENGTH = 200


def check(criterion: SkillTriggered, evidence: Evidence) -> Judgement:
    """Score 1 when the skill was used and expected, or neither. Labels: yes and no."""
    if evidence.trajectory is None:
        return Judgement(0.0, "no agent ran, so nothing is known about its skills")
    engagement = next(_engagements(criterion.skill_name, evidence.trajectory.tool_calls), None)
    expected = criterion.expected_skill == criterion.skill_name
    observed = engagement is not None
    reason = f"skill {criterion.skill_name} was {'' if observed else 'not '}used; expected: {_label(expected)}"
    return Judgement(
        float(observed == expected),
        reason,
        f"first use: {engagement}" if engagement is not None else "",
        label=_label(observed),
        expected_label=_label(expected),
    )


def live_verdict(criterion: SkillTriggered, evidence: Evidence) -> Verdict | None:
    """Return the verdict that is already certain while the agent still works, else None.

    Once the skill was used nothing can take that back: PASS where it is expected, else FAIL.
    """
    if evidence.trajectory is None or not any(_engagements(criterion.skill_name, evidence.trajectory.tool_calls)):
        return None
    return Verdict.PASS if criterion.expected_skill == criterion.skill_name else Verdict.FAIL


def _label(value: bool) -> str:
    return "yes" if value else "no"


def _engagements(skill: str, calls: tuple[ToolCall, ...]) -> Iterator[str]:
    """Each call that loads the skill, or that names a path below the skill's folder, as text."""
    for call in calls:
        name = call.parameters.get("skill")
        if call.name == SKILL_TOOL and isinstance(name, str) and name.rpartition(":")[2] == skill:
            yield f"{call.name} {name}"
            continue
        for value in call.parameters.values():
            if isinstance(value, str) and f"skills/{skill}/" in _forward_slashes(value):
                yield f"{call.name} {shorten(value, SHOWN_LENGTH)}"
                break


def _forward_slashes(text: str) -> str:
    return text.replace("\\\\", "/").replace("\\", "/")
