"""The Skill tool: lists the skills of a trial's plugins, and loads the text of one from its copy in the sandbox."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import clock
from ...sandbox.protocol import Phase
from ..protocol import time_is_up
from .outcome import InvalidInput, Outcome, error

if TYPE_CHECKING:
    from ...sandbox.protocol import Sandbox
    from ..skills.projected import Skill

TIMEOUT = 30.0
"""Seconds that reading a skill may take."""

DEFINITION: Mapping[str, Any] = {
    "name": "Skill",
    "description": "Load the instructions of one of the skills that the system prompt lists. Do so before work that a "
    "skill is for; then follow what it says.",
    "input_schema": {
        "type": "object",
        "properties": {"skill": {"type": "string", "description": "The name of the skill as it is listed."}},
        "required": ["skill"],
    },
}

_FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n.*?^---[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE)


class Skills:
    """The skills of one agent, each called `plugin:name` or, where no other has it, `name`."""

    def __init__(self, sandbox: Sandbox, skills: tuple[Skill, ...]) -> None:
        self._sandbox = sandbox
        self._skills = {listed_name(skill): skill for skill in skills}

    def __bool__(self) -> bool:
        return bool(self._skills)

    @property
    def listing(self) -> str:
        """One line for each."""
        return "\n".join(f"- {name}: {' '.join(skill.description.split())}" for name, skill in self._skills.items())

    def run(self, parameters: Mapping[str, object], deadline: float) -> Outcome:
        """Carry out a call of the tool. Raises InvalidInput, and AgentError(TURN_TIMEOUT) without any time left."""
        name = parameters.get("skill")
        if not isinstance(name, str):
            raise InvalidInput("`skill` is the name of a skill")
        skill = self._find(name.strip().removeprefix("/"))
        if skill is None:
            return error(f"there is no skill {name[:100]!r}; there are: {', '.join(self._skills) or 'none'}")
        left = deadline - clock.monotonic()
        if left <= 0:
            raise time_is_up("the agent")
        result = self._sandbox.run(
            ["/bin/sh", "-c", 'command -p cat -- "$1"', "sh", f"{skill.folder}/SKILL.md"],
            phase=Phase.AGENT,
            timeout=min(left, TIMEOUT),
        )
        if result.exit_status != 0:
            return error(f"the skill cannot be read: {result.stderr_text.strip()[-500:]}")
        body = _FRONT_MATTER.sub("", result.stdout_text, count=1)
        return Outcome("success", f"Base directory for this skill: {skill.folder}\n\n{body.strip()}\n")

    def _find(self, name: str) -> Skill | None:
        if name in self._skills:
            return self._skills[name]
        same = [skill for skill in self._skills.values() if skill.name == name]
        return same[0] if len(same) == 1 else None


def listed_name(skill: Skill) -> str:
    """The name by which a skill is listed."""
    return f"{skill.plugin}:{skill.name}" if skill.plugin else skill.name
