"""The tools that the loop offers: told in the common vocabulary, carried out in the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..protocol import OwnTool
from .editor import Editor, as_common_call
from .outcome import InvalidInput, Outcome, error
from .shell import Shell
from .skill_tool import DEFINITION as SKILL
from .skill_tool import Skills

if TYPE_CHECKING:
    from ...sandbox.protocol import Sandbox

BASH: Mapping[str, Any] = {"type": "bash_20250124", "name": "bash"}
EDITOR: Mapping[str, Any] = {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool"}

_NAMES: Mapping[str, str] = {BASH["name"]: "Bash", SKILL["name"]: "Skill"}

Run = Callable[[Mapping[str, object], float], Outcome]


class Toolbox:
    """The tools of one agent; `permitted` names those that it may use."""

    def __init__(self, sandbox: Sandbox, skills: Skills, permitted: frozenset[str]) -> None:
        self._tools: dict[str, tuple[Mapping[str, Any], Run]] = {}
        self.editor_commands: list[str] = []
        if "Bash" in permitted:
            self._add(BASH, Shell(sandbox).run)
        editor = Editor(sandbox, permitted)
        if editor.commands:
            self.editor_commands = editor.commands
            self._add(EDITOR, editor.run)
        if "Skill" in permitted and skills:
            self._add(SKILL, skills.run)

    def add_own(self, tool: OwnTool) -> None:
        """Offer a tool of the harness."""

        def run(parameters: Mapping[str, object], deadline: float) -> Outcome:
            succeeded, said = tool.run(parameters)
            return Outcome("success" if succeeded else "error", said)

        self._add(tool.definition, run)

    def _add(self, definition: Mapping[str, Any], run: Run) -> None:
        self._tools[definition["name"]] = (definition, run)

    def __contains__(self, name: str) -> bool:
        return name in self._tools

    @property
    def definitions(self) -> list[Mapping[str, Any]]:
        """The tools as a request names them."""
        return [definition for definition, _ in self._tools.values()]

    def run(self, name: str, parameters: Mapping[str, object], deadline: float) -> Outcome:
        """Carry out a call; one that makes no sense is an error of the call.

        Raises AgentError(TURN_TIMEOUT) without any time left, and TrialError when the sandbox failed.
        """
        if name not in self._tools:
            return error(f"there is no tool {name[:100]!r}; there are: {', '.join(self._tools) or 'none'}")
        try:
            return self._tools[name][1](parameters, deadline)
        except InvalidInput as invalid:
            return error(str(invalid))


def common_call(name: str, parameters: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Name and parameters of a call in the common vocabulary; what has no place there stays as it is."""
    if name == EDITOR["name"]:
        return as_common_call(parameters) or (name, parameters)
    return _NAMES.get(name, name), parameters
