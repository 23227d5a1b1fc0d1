"""Criterion type skill_triggered: whether the agent made use of a skill, as expected or not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..task.command_models import SkillTriggered
from ..text import shorten
from ..trajectory.model import ToolCall
from ..trajectory.shell import Ran, SimpleCommand
from .commands.interpreter_code import runs_code
from .commands.mentions import masked_texts
from .commands.shell_calls import shell_text, understood
from .contract import Evidence, Judgement, Verdict

SKILL_TOOL = "Skill"
SHOWN_LENGTH = 200

NOTE_TOOLS = frozenset(
    "Agent AskUserQuestion ExitPlanMode Task TaskCreate TaskUpdate TodoRead TodoWrite WebFetch WebSearch".split()
)
"""Tools whose texts name files without opening them."""

CONTENTS = frozenset("content description file_text new_str new_string old_str old_string prompt".split())
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


def live_verdict(criterion: SkillTriggered, evidence: Evidence) -> Verdict | None:
    """Return the verdict that is already certain while the agent still works, else None.

    Once the skill was used nothing can take that back: PASS where it is expected, else FAIL.
    """
    if evidence.trajectory is None or not any(_engagements(criterion.skill_name, evidence.trajectory.tool_calls)):
        return None
    return Verdict.PASS if criterion.expected_skill == criterion.skill_name else Verdict.FAIL


def _label(value: bool) -> str:
    return "yes" if value else "no"


def _engagements(skill: str, calls: Iterable[ToolCall]) -> Iterator[str]:
    """Each call that loads the skill, or that opens something below the skill's folder, as text."""
    below = re.compile(rf"(?<![\w-])skills/{re.escape(skill)}/")
    inside = re.compile(rf"(?<![\w-])skills/{re.escape(skill)}(?:/|$)")
    for call in calls:
        name = call.parameters.get("skill")
        text = shell_text(call)
        if call.name == SKILL_TOOL and isinstance(name, str) and name.rpartition(":")[2] == skill:
            yield f"{call.name} {name}"
        elif text is not None:
            if _in_shell(call, text, below, inside):
                yield f"{call.name} {shorten(text, SHOWN_LENGTH)}"
        elif call.name not in NOTE_TOOLS:
            found = (value for value in _opened(call) if below.search(_forward_slashes(value)))
            yield from (f"{call.name} {shorten(value, SHOWN_LENGTH)}" for value in list(found)[:1])


def _opened(call: ToolCall) -> Iterator[str]:
    """The texts among the parameters of a call that may be paths."""
    for key, value in call.parameters.items():
        if key not in CONTENTS and isinstance(value, str):
            yield value


def _in_shell(call: ToolCall, text: str, below: re.Pattern[str], inside: re.Pattern[str]) -> bool:
    """Whether a command names something below the folder, or is run in it.

    A path with backslashes belongs to another shell, whose text is not parsed.
    """
    if not below.search(text) and below.search(_forward_slashes(text)):
        return True
    program = understood(call, text)
    entered = False
    for command in program.commands:
        if command.ran is Ran.NO or not command.words:
            continue
        if command.program in ("cd", "pushd"):
            entered = any(inside.search(word) for word in command.words[1:])
        elif entered and command.program not in ("echo", "printf", "pwd"):
            return True
        if any(below.search(part) for part in _texts(command)):
            return True
    return any(below.search(part) for part in program.unparsed)


def _texts(command: SimpleCommand) -> Iterator[str]:
    """The texts of a command without what it prints, searches or writes; the code of an interpreter is one."""
    yield from masked_texts(command, command.data)
    if runs_code(command):
        yield from command.data


def _forward_slashes(text: str) -> str:
    return text.replace("\\\\", "/").replace("\\", "/")
