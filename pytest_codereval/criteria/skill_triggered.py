"""Criterion type skill_triggered: whether the agent made use of a skill, as expected or not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..task.command_models import SkillTriggered
from ..text import shorten
from ..trajectory.model import ToolCall
from .commands.per_call import per_call
from .commands.shell_calls import shell_text
from .contract import Evidence, Judgement, Verdict
from .skills.folder import SkillFolder, is_called
from .skills.shell_reads import forward_slashes, opens

SKILL_TOOL = "Skill"
SHOWN_LENGTH = 200

OTHER_TOOLS = frozenset(
    "Agent AskUserQuestion ExitPlanMode Glob LS Task TaskCreate TaskUpdate TodoRead TodoWrite WebFetch WebSearch"
    " Write".split()
)
"""Tools whose texts name files without reading them."""

CONTENTS = frozenset("content description file_text glob new_str new_string old_str old_string pattern prompt".split())
"""Parameters that are written, searched or said, and open nothing."""


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


def live_polarities(criterion: SkillTriggered) -> frozenset[Verdict]:
    """Return the verdicts that `live_verdict` can ever give for this criterion."""
    if criterion.expected_skill == criterion.skill_name:
        return frozenset((Verdict.PASS,))
    return frozenset((Verdict.FAIL,) if criterion.pass_threshold > 0 else ())


def live_verdict(criterion: SkillTriggered, evidence: Evidence) -> Verdict | None:
    """Return the verdict that is already certain while the agent still works, else None.

    Once the skill was used nothing can take that back: PASS where it is expected, else FAIL. A call that has not ended
    may still fail, so it is no use yet.
    """
    polarities = live_polarities(criterion)
    if evidence.trajectory is None or not polarities:
        return None
    ended = [call for call in evidence.trajectory.tool_calls if call.ended is not None or call.status != "unknown"]
    return next(iter(polarities)) if any(_engagements(criterion.skill_name, ended)) else None


def _label(value: bool) -> str:
    return "yes" if value else "no"


def _engagements(skill: str, calls: Iterable[ToolCall]) -> Iterator[str]:
    """Each call that loads the skill, or that reads something below the skill's folder, as text."""
    return filter(None, (_engagement(call, skill) for call in calls))


@per_call
def _engagement(call: ToolCall, skill: str) -> str:
    """How the call makes use of the skill, empty when it does not.

    A call that failed does not. One that did not end does, since it asked for the skill.
    """
    folder = SkillFolder(skill)
    name = call.parameters.get("skill")
    text = shell_text(call)
    if text is not None:
        return f"{call.name} {shorten(text, SHOWN_LENGTH)}" if opens(call, text, folder) else ""
    if call.status == "error" or call.name in OTHER_TOOLS:
        return ""
    if call.name == SKILL_TOOL and isinstance(name, str) and is_called(name, skill):
        return f"{call.name} {name}"
    found = next((value for value in _opened(call) if folder.has_below(forward_slashes(value))), None)
    return f"{call.name} {shorten(found, SHOWN_LENGTH)}" if found is not None else ""


def _opened(call: ToolCall) -> Iterator[str]:
    """The texts among the parameters of a call that may be paths."""
    for key, value in call.parameters.items():
        if key not in CONTENTS and isinstance(value, str):
            yield value
