"""The texts in which a pattern about a tool call is searched.

A shell command is searched as it was written and once more without its quotes and its `sh -c` wrapper; long commands
in windows, so that a pattern's `.*` cannot span the whole of a long script.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterator, Sequence

from ..sandbox.workspace import Unreadable
from ..trajectory.model import ToolCall

SHELL_TOOL = "Bash"
WINDOW = 2000
"""Characters of a command in which a pattern is searched at once, and of the JSON text of other tools' parameters."""

OVERLAP = 256
"""Characters that two windows share where one line is longer than a window."""

_OPTION_CLUSTER = re.compile(r"-[A-Za-z]*c[A-Za-z]*")


def haystacks(call: ToolCall) -> tuple[str, ...]:
    """Return the texts of `call` that a pattern may match, without repetition.

    For the shell tool with a text `command`: windows of the command, raw and normalised. For every other call: the
    head of the JSON text of its parameters. Raises Unreadable when they have none.
    """
    command = call.parameters.get("command")
    if call.name == SHELL_TOOL and isinstance(command, str) and command:
        return command_haystacks(command)
    try:
        return (json.dumps(dict(call.parameters), default=str)[:WINDOW],)
    except (RecursionError, TypeError, ValueError) as error:
        raise Unreadable(f"the parameters of a call of {call.name} cannot be written as JSON: {error}") from None


@functools.lru_cache(maxsize=8192)
def command_haystacks(command: str) -> tuple[str, ...]:
    """Return the windows of a shell command, each raw and, where it differs, normalised."""
    texts: dict[str, None] = {}
    for window in windows(command):
        texts[window] = None
        normal = normalise(window)
        if normal is not None:
            texts[normal] = None
    return tuple(texts)


def windows(command: str) -> tuple[str, ...]:
    """Cut a command into windows of at most `WINDOW` characters.

    The first is the head of the command wherever that ends. The others hold whole logical lines (a line that ends in
    a backslash belongs to the next) as far as they fit; a longer one is cut into overlapping pieces.
    """
    if len(command) <= WINDOW:
        return (command,)
    result = [command[:WINDOW]]
    packed = ""
    for line in _logical_lines(command):
        if packed and len(packed) + len(line) > WINDOW:
            result.append(packed)
            packed = ""
        if len(line) > WINDOW:
            result.extend(_pieces(line))
        else:
            packed += line
    if packed:
        result.append(packed)
    return tuple(dict.fromkeys(result))


def _logical_lines(command: str) -> Iterator[str]:
    pending = ""
    for line in command.splitlines(keepends=True):
        pending += line
        if not line.rstrip("\r\n").endswith("\\"):
            yield pending
            pending = ""
    if pending:
        yield pending


def _pieces(line: str) -> Iterator[str]:
    for start in range(0, len(line), WINDOW - OVERLAP):
        yield line[start : start + WINDOW]
        if start + WINDOW >= len(line):
            return


def normalise(command: str) -> str | None:
    """Return the command without quotes and without a wrapper such as `bash -lc`, its words joined by single spaces.

    None when there is no word or when a quote is not closed.
    """
    try:
        words = shlex.split(command)
        if words and _is_shell(words[0]):
            words = _unwrapped(words)
    except ValueError:
        return None
    return " ".join(words) if words else None


def _is_shell(word: str) -> bool:
    return word.rpartition("/")[2].endswith("sh")


def _unwrapped(words: Sequence[str]) -> list[str]:
    """Return the words of the script behind the first option cluster with a `c`, or `words` where there is none."""
    for index, word in enumerate(words[1:], start=1):
        if not word.startswith("-"):
            break
        if _OPTION_CLUSTER.fullmatch(word):
            script = list(words[index + 1 :])
            return shlex.split(script[0]) if len(script) == 1 else script
    return list(words)
