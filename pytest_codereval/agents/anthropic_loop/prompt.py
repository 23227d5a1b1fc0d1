"""The system prompt of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .editor import COMMANDS
from .messages import CACHED
from .shell import TIMEOUT

if TYPE_CHECKING:
    from .skill_tool import Skills
    from .tools import Toolbox

_WORK = """You are an agent that carries out a task by itself, with the tools it has. They work in a sandbox, not on the
machine of whoever asks. When the task is done, say in a few words what you did.

Working directory: {workspace}
"""
_BASH = """
Each bash command runs in a new shell, which starts in the directory that the last one ended in; variables are not kept.
A command is killed after {timeout:g} seconds and cannot ask for input.
"""
_EDITOR = """
Of the editor only these commands are permitted: {commands}.
"""
_SKILLS = """
These skills can be loaded with the tool Skill. Load the one that fits before you begin with what it is for:
{listing}
"""


def system_prompt(workspace: str, toolbox: Toolbox, skills: Skills, own: str | None) -> list[dict[str, Any]]:
    """The blocks of the system prompt; `own` is that of the task."""
    parts = [_WORK.format(workspace=workspace)]
    if "bash" in toolbox:
        parts.append(_BASH.format(timeout=TIMEOUT))
    if toolbox.editor_commands and len(toolbox.editor_commands) < len(COMMANDS):
        parts.append(_EDITOR.format(commands=", ".join(toolbox.editor_commands)))
    if "Skill" in toolbox:
        parts.append(_SKILLS.format(listing=skills.listing))
    texts = ["".join(parts), *([own] if own else [])]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text} for text in texts]
    blocks[-1]["cache_control"] = CACHED
    return blocks
