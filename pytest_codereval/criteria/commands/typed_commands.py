"""The simple commands of the transcript, each with what its tool call tells about it."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from collections.abc import Collection

from ...trajectory.model import ToolCall
from ...trajectory.shell import Ran, ShellProgram, SimpleCommand

NOT_FOUND = 127
"""The exit status of a shell that found no such program."""

_NAME = re.compile(r"[\w.+-]+")
_INSTALLED = re.compile(r"(?:^|/)(?:node_modules|site-packages|\.?v?env[^/]*|\.tox|\.nox)/")
_REDIRECTED = re.compile(r"(?:(?<!<)<(?![<(&])|(?<![>&])>{1,2}(?![(&]))(?!\s*/dev/null)")


@dataclasses.dataclass(frozen=True, eq=False)
class TypedCommand:
    """A simple command that may have been run, once for each run.

    `certain` tells whether a shell has certainly come to it and started its program. `own` tells whether that is a
    program of the workspace, named by its path. `missing` tells whether there was no such program. `called` is the
    command that the shell called: that of a prefix, such as `npx`, where that is a recorded tool.
    """

    call: ToolCall
    command: SimpleCommand
    called: SimpleCommand
    certain: bool = False
    own: bool = False
    missing: bool = False


def typed_in(
    call: ToolCall, program: ShellProgram, tools: Collection[str] = (), workspace: str = ""
) -> tuple[TypedCommand, ...]:
    """The commands of `program`, the shell text of `call`, in their order.

    `tools` are those that are recorded, `workspace` is the absolute path of the workspace.
    """
    commands = [command for command in program.commands if command.ran is not Ran.NO]
    place: str | None = "."
    found = []
    for command in commands:
        missing = call.exit_status == NOT_FOUND and command is commands[-1] and command.succeeded is False
        called = _called(command, tools)
        own = _is_own(called, place, workspace)
        found.append(TypedCommand(call, command, called, _is_certain(call, command), own, missing))
        if command.program in ("cd", "pushd"):
            place = _moved(command, place, workspace)
    return tuple(found)


def _is_certain(call: ToolCall, command: SimpleCommand) -> bool:
    """A call that was refused has no exit status; a command in the background, or one that failed and has files to
    open, may not have started its program.
    """
    ended = call.exit_status is not None or call.status == "success"
    background = bool(call.parameters.get("run_in_background")) or command.why_unknown == "&"
    unopened = command.succeeded is False and _REDIRECTED.search(command.raw) is not None
    return command.ran is Ran.YES and ended and not background and not unopened


def named_program(command: SimpleCommand) -> str:
    """The name of the program, or "" where nobody knows it; `$HOME/bin/uip` is `uip`."""
    if not command.words:
        return ""
    known = command.known[0] or ("/" in command.words[0] and _NAME.fullmatch(command.program))
    return command.program if known else ""


def _called(command: SimpleCommand, tools: Collection[str]) -> SimpleCommand:
    for place, prefix in enumerate(command.prefixed):
        words = tuple(" ".join(command.prefixed[place:]).split(" "))
        if prefix.split(" ")[0].rpartition("/")[2] in tools:
            known = (*("$" not in word for word in words), *command.known)
            return dataclasses.replace(
                command, words=(*words, *command.words), known=known, prefixed=command.prefixed[:place]
            )
    return command


def _is_own(command: SimpleCommand, place: str | None, workspace: str) -> bool:
    """Whether a shell in `place`, relative to the workspace, finds the program in the workspace by its path."""
    word = command.words[0] if command.words and command.known[0] else ""
    if "/" not in word or word.startswith("~"):
        return False
    path = _inside(word, place, workspace)
    return path is not None and _INSTALLED.search(path) is None


def _moved(command: SimpleCommand, place: str | None, workspace: str) -> str | None:
    """Where a shell is after `cd`; None when that is outside of the workspace or not known."""
    targets = [at for at, word in enumerate(command.words[1:], start=1) if not re.match(r"-.", word)]
    if len(targets) != 1 or not command.known[targets[0]]:
        return None
    target = command.words[targets[0]]
    if target == "-" or target.startswith("~"):
        return None
    return _inside(target, place, workspace)


def _inside(path: str, place: str | None, workspace: str) -> str | None:
    """`path` relative to the workspace, or None when it leads out of it."""
    if path.startswith("/"):
        if not workspace.strip("/"):
            return None
        path = posixpath.relpath(path, workspace)
    elif place is None:
        return None
    else:
        path = posixpath.normpath(posixpath.join(place, path))
    return None if path == ".." or path.startswith("../") else path
