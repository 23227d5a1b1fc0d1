"""Whether a shell text opened something in a skill's folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ...trajectory.model import ToolCall
from ...trajectory.shell import Ran, SimpleCommand
from ..commands.interpreter_code import runs_code
from ..commands.shell_calls import understood
from .folder import SkillFolder, joined
from .operands import FILTERS, PASSIVE, WHOLE_FOLDERS, read_operands

MOST_VALUES = 20

_FINDERS = frozenset("fd fdfind find gfind ls rg".split())
_FOR = re.compile(r"\bfor\s+(\w+)\s+in\s+([^;\n]{1,1000})")
_INPUT_OF_MANY = re.compile(r"(?:\bdone\s*|\$\(\s*)<\s*([^\s<>()&|;]+)")
_PASSED_ON = re.compile(r"(?<!\|)\|(?!\|)|[$<]\(|`")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_NOT_THERE = re.compile(r"no such file|can't open|cannot find|not found|permission denied", re.IGNORECASE)
_NEVER_STARTED = (126, 127)


def opens(call: ToolCall, text: str, folder: SkillFolder) -> bool:
    """Whether the shell text of `call` read, or ran, something in the folder, as far as is known.

    A command that is known to have failed has not, unless it had several files, or was a program of the skill. A path
    with backslashes belongs to another shell, whose text is not parsed.
    """
    program = understood(call, text)
    slashed = forward_slashes(text)
    if slashed != text and not folder.is_named_in(text) and folder.is_named_in(slashed):
        return len(program.commands) != 1 or program.commands[0].succeeded is not False
    if any(folder.is_named_in(part) for part in program.unparsed):
        return True
    reading = _Reading(call, text, folder)
    if any(reading.reads(command) for command in program.commands if command.ran is not Ran.NO and command.words):
        return True
    return any(folder.has_below(match[1].strip("\"'")) for match in _INPUT_OF_MANY.finditer(text))


def forward_slashes(text: str) -> str:
    """A path of Windows, also as it is written in code, with the slashes of others."""
    return text.replace("\\\\", "/").replace("\\", "/")


class _Reading:
    """Goes through the commands of a text in order and keeps the folder in which each is run."""

    def __init__(self, call: ToolCall, text: str, folder: SkillFolder) -> None:
        self._call = call
        self._text = text
        self._folder = folder
        self._at = 0
        self._place = ""
        self._places: list[str] = []
        self._outer: list[tuple[str, list[str]]] = []
        self._found = False
        self._variables = _loops(text)

    def reads(self, command: SimpleCommand) -> bool:
        """Whether a command reads the skill's folder; to be asked for each in order."""
        self._follow_brackets(command)
        if command.program in ("cd", "pushd", "popd"):
            self._enter(command)
            return False
        if command.program in _FINDERS:
            self._found |= self._finds(command)
        if command.program in PASSIVE:
            return False
        return self._opens(command) and not self._failed(command)

    def _follow_brackets(self, command: SimpleCommand) -> None:
        """What is entered within brackets is left behind them."""
        start = self._text.find(command.raw, self._at)
        if start < 0:
            return
        for bracket in re.findall(r"[()]", self._text[self._at : start]):
            if bracket == "(":
                self._outer.append((self._place, list(self._places)))
            elif self._outer:
                self._place, self._places = self._outer.pop()
        self._at = start + (len(command.raw) if command.program not in ("find", "gfind") else 1)

    def _enter(self, command: SimpleCommand) -> None:
        if command.succeeded is False:
            return
        names = [word for word in command.words[1:] if not word.startswith("-") or word == "-"]
        back = command.program == "popd" or names[:1] == ["-"]
        if back:
            self._place = self._places.pop() if self._places else ""
            return
        self._places.append(self._place)
        self._place = joined(self._place, names[0]) if names else "~"

    def _finds(self, command: SimpleCommand) -> bool:
        """Whether a command that lists files tells other commands those of the skill."""
        places = [word for word in command.words[1:] if not word.startswith("-")] or ["."]
        return any(self._folder.may_be_under(place, self._place) for place in places)

    def _opens(self, command: SimpleCommand) -> bool:
        if runs_code(command) and any(self._is_named(text) for text in command.data):
            return True
        if self._found and self._takes_found(command):
            return True
        paths = read_operands(command)
        test = self._folder.has if command.program in WHOLE_FOLDERS else self._folder.has_below
        if any(test(path, self._place) for word in paths for path in self._values(word)):
            return True
        is_inside = self._folder.has(self._place)
        return is_inside and len(command.words) == 1 and command.program not in FILTERS

    def _is_named(self, text: str) -> bool:
        return self._folder.is_named_in(text) or (
            self._folder.has(self._place) and re.search(r"\bopen\b|\bread", text) is not None
        )

    def _takes_found(self, command: SimpleCommand) -> bool:
        """Whether files that a command before it found are what it reads."""
        if command.why_unknown == "find" or any(word.startswith("xargs") for word in command.prefixed):
            return True
        if command.program not in FILTERS or _PASSED_ON.search(self._text) is None:
            return False
        words = zip(command.words, command.known, strict=True)
        return any(not known and not word.startswith(("<(", ">(")) for word, known in words)

    def _values(self, word: str) -> Iterator[str]:
        """The word, and with each value that a loop gives to the first of its variables that has one."""
        yield word
        for variable in _VARIABLE.finditer(word):
            if variable[1] in self._variables:
                for value in self._variables[variable[1]]:
                    yield f"{word[: variable.start()]}{value}{word[variable.end() :]}"
                return

    def _failed(self, command: SimpleCommand) -> bool:
        """Whether the command is known to have read nothing."""
        if command.succeeded is not False:
            return False
        if command.program in FILTERS or command.program in WHOLE_FOLDERS:
            return sum(not word.startswith("-") for word in read_operands(command)) <= 1
        return self._call.exit_status in _NEVER_STARTED or _NOT_THERE.search(self._call.output[:10_000]) is not None


def _loops(text: str) -> Mapping[str, Sequence[str]]:
    """The words over which the loops of a text go, by the name of their variable."""
    values: dict[str, list[str]] = {}
    for match in _FOR.finditer(text):
        try:
            words = shlex.split(match[2])
        except ValueError:
            continue
        values.setdefault(match[1], []).extend(words[:MOST_VALUES])
    return values
