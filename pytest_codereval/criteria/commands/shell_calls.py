"""Which tool calls ran shell text, and what that text ran."""

from __future__ import annotations

import re
import shlex

from ...trajectory.model import ToolCall
from ...trajectory.shell import ShellProgram, understand

SHELL_TOOL = "Bash"

OTHER_TOOLS = frozenset(
    """
    Agent AskUserQuestion BashOutput Edit EnterPlanMode ExitPlanMode Glob Grep KillBash KillShell LS
    ListMcpResourcesTool MultiEdit NotebookEdit NotebookRead Read ReadMcpResourceTool Skill SlashCommand Task
    TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TodoRead TodoWrite ToolSearch WebFetch WebSearch Write
    memory str_replace_based_edit_tool str_replace_editor text_editor
    """.split()
)
"""Tools that run no shell text, whatever their parameters are called."""

_UNQUOTED_SCRIPT = re.compile(r"\s*((?:/\S*/)?(?:ba|da|z|k|a)?sh\s+-[A-Za-z]*c)\s+([^\s'\"\\]+[ \t][^'\"\\]*)")


def shell_text(call: ToolCall) -> str | None:
    """Return the shell text that `call` ran, or None when it ran no shell.

    The shell is Bash, or a tool that is none of `OTHER_TOOLS`, with a `command` that is a text or a list of words. In
    `bash -lc git push` the quotes of a script have been lost; they are put back.
    """
    if call.name in OTHER_TOOLS:
        return None
    command = call.parameters.get("command")
    if isinstance(command, str):
        unquoted = _UNQUOTED_SCRIPT.fullmatch(command)
        return f"{unquoted[1]} {shlex.quote(unquoted[2])}" if unquoted else command or None
    if isinstance(command, list | tuple) and command and all(isinstance(word, str) for word in command):
        return shlex.join(command)
    return None


def understood(call: ToolCall, text: str) -> ShellProgram:
    """Return what the shell text of `call` ran, judged by the status of the call.

    The status of a call that was put into the background tells nothing, that of a call in error never success.
    """
    if call.parameters.get("run_in_background"):
        return understand(text)
    if call.status == "error" and not call.exit_status:
        return understand(text, succeeded=False)
    if call.exit_status is not None:
        return understand(text, call.exit_status)
    return understand(text, succeeded=True if call.status == "success" else None)
