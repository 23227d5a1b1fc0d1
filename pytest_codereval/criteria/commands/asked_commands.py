"""What a command_executed criterion asks of one simple command: a pattern in its text, or facets of its arguments."""

from __future__ import annotations

import dataclasses
import re
import shlex
from collections.abc import Sequence
from typing import ClassVar, Protocol

from ...recorder.argv import ArgvPattern, compare, pattern_of
from ...recorder.invocation import Invocation
from ...recorder.options import OptionTable
from ...task.command_models import CommandExecuted
from ...trajectory.shell import Ran, SimpleCommand, understand
from ..patterns import search
from .command_text import command_haystacks
from .interpreter_code import code_of, runs_code
from .known_words import Known, known_match
from .mentions import FILE_TOOLS, SEARCHERS, Found, data_texts, excluded, first_match, found, long_arguments
from .typed_commands import named_program

LAUNCHERS = frozenset(
    "docker podman nerdctl kubectl oc lxc ssh chroot nsenter su runuser watch strace ltrace parallel wsl".split()
)
"""Programs that run what stands among their arguments, somewhere else or in some other way."""

NO_LAUNCHERS = SEARCHERS | FILE_TOOLS | {"git", "gh", "pip", "pip3", "brew", "apt", "apt-get"}
"""Programs that never run what stands among their arguments; any other one may."""

_VARIABLE = re.compile(r"\"?\$\{?([A-Za-z_]\w*)(?:[:?+-].*)?\}?\"?", re.DOTALL)


class Asked(Protocol):
    """What is asked of a command. A text that could not be understood counts for a least number where `texts_count`."""

    texts_count: ClassVar[bool]

    def found_in(self, command: SimpleCommand) -> Found:
        """How `command` answers."""

    def match_in(self, text: str) -> re.Match[str] | None:
        """Where a text that could not be understood may hold such a command."""

    def answers(self, invocation: Invocation) -> bool:
        """Whether the recorded call is one, judged by its arguments alone."""

    def excludes(self, invocation: Invocation) -> bool:
        """Whether the recorded call is taken out."""

    def difference(self, tool: str, argv: Sequence[str], known: Sequence[bool] = ()) -> str:
        """What keeps a call of `tool` from being one, or "" where that cannot be told."""


def asked_by(criterion: CommandExecuted, options: OptionTable = ()) -> Asked:
    """Return what `criterion` asks; `options` are the flags that the tool of its `command` declares."""
    if criterion.command is not None:
        facets = criterion.command
        return AskedFacets(facets.tool, pattern_of(facets, options), criterion.exclude_pattern)
    return AskedPattern(criterion.command_pattern or "", criterion.exclude_pattern)


@dataclasses.dataclass(frozen=True)
class AskedPattern:
    """A regular expression is found in the command's text and `exclude` is not."""

    texts_count: ClassVar[bool] = True

    pattern: str
    exclude: str | None = None

    def found_in(self, command: SimpleCommand) -> Found:
        how = found(self.pattern, command)
        return Found.EXCLUDED if how is not Found.NOWHERE and excluded(self.exclude, command) else how

    def match_in(self, text: str) -> re.Match[str] | None:
        return _unless_excluded(first_match(self.pattern, command_haystacks(text)), self.exclude, text)

    def answers(self, invocation: Invocation) -> bool:
        return first_match(self.pattern, spellings(invocation)) is not None

    def excludes(self, invocation: Invocation) -> bool:
        return self.exclude is not None and first_match(self.exclude, spellings(invocation)) is not None

    def difference(self, tool: str, argv: Sequence[str], known: Sequence[bool] = ()) -> str:
        return ""


@dataclasses.dataclass(frozen=True)
class AskedFacets:
    """The command is a call of `tool` whose arguments have the facets of `pattern`."""

    texts_count: ClassVar[bool] = False

    tool: str
    pattern: ArgvPattern
    exclude: str | None = None

    def found_in(self, command: SimpleCommand) -> Found:
        if self._calls_tool(command):
            how = self._as_call(command)
            return Found.EXCLUDED if how is not Found.NOWHERE and excluded(self.exclude, command) else how
        if command.data and any(self._resembles(text) for text in data_texts(command)):
            in_code = runs_code(command) and any(map(self._resembles, code_of(command)))
            return Found.CODE_TEXT if in_code else Found.MENTION
        how = self._within(command)
        return Found.EXCLUDED if how is not Found.NOWHERE and excluded(self.exclude, command) else how

    def match_in(self, text: str) -> re.Match[str] | None:
        match = next(filter(None, map(self._resembles, command_haystacks(text))), None)
        return _unless_excluded(match, self.exclude, text)

    def answers(self, invocation: Invocation) -> bool:
        return invocation.tool == self.tool and compare(self.pattern, invocation.argv).matched

    def excludes(self, invocation: Invocation) -> bool:
        return self.exclude is not None and first_match(self.exclude, spellings(invocation)) is not None

    def difference(self, tool: str, argv: Sequence[str], known: Sequence[bool] = ()) -> str:
        if tool != self.tool:
            return ""
        difference = compare(self.pattern, argv).difference
        for word, sure in zip(argv, known, strict=False):
            if not sure and difference.endswith(f"got {word!r}"):
                return difference.removesuffix(f"got {word!r}") + f"unknown: {word}"
        return difference

    def _calls_tool(self, command: SimpleCommand) -> bool:
        if not command.words or named_program(command):
            return command.program == self.tool
        return named_by_variable(command.words[0]) == self.tool.casefold()

    def _as_call(self, command: SimpleCommand) -> Found:
        how = known_match(self.pattern, command.words[1:], command.known[1:])
        if how is Known.MATCH:
            return Found.COMMAND if named_program(command) else Found.VARIABLE
        return Found.POSSIBLE if how is Known.OPEN else Found.NOWHERE

    def _within(self, command: SimpleCommand) -> Found:
        """Whether another program may run a call of the tool: one in an argument, or as the last of its arguments."""
        texts = [text for text in long_arguments(command) if text not in command.data and self.tool in text]
        inner = [item for text in texts for item in understand(text).commands if item.ran is not Ran.NO]
        found = {self._as_call(item) for item in inner if self._calls_tool(item)}
        if command.program not in NO_LAUNCHERS:
            for at, word in enumerate(command.words[1:], start=1):
                if word == self.tool and command.known[at]:
                    tail = dataclasses.replace(command, words=command.words[at:], known=command.known[at:])
                    how = self._as_call(tail)
                    found.add(how if how is Found.NOWHERE or command.program in LAUNCHERS else Found.POSSIBLE)
        found.discard(Found.NOWHERE)
        if not found:
            return Found.NOWHERE
        return Found.POSSIBLE if found == {Found.POSSIBLE} else Found.ARGUMENT

    def _resembles(self, text: str) -> re.Match[str] | None:
        """The tool's name and after it, in the same command, the words of a verb."""
        verbs = "|".join(r"[^\n;&|]*?\s".join(map(re.escape, verb)) for verb in self.pattern.verbs)
        tail = rf"[^\n;&|]*?\s(?:{verbs})(?![\w-])" if verbs else ""
        return search(rf"(?<![\w-]){re.escape(self.tool)}(?![\w-]){tail}", text)


def named_by_variable(word: str) -> str:
    """The name of the variable that is the whole of `word`, in small letters."""
    variable = _VARIABLE.fullmatch(word)
    return variable[1].casefold() if variable else ""


def spellings(invocation: Invocation) -> tuple[str, ...]:
    """How a recorded call may have been written: quoted for a shell, unquoted, and with double quotes."""
    words = (invocation.tool, *invocation.argv)
    quoted = shlex.join(words)
    return tuple(dict.fromkeys((quoted, f"{quoted}\n", " ".join(words), " ".join(map(_double_quoted, words)))))


def _double_quoted(word: str) -> str:
    if word and shlex.quote(word) == word:
        return word
    return '"{}"'.format(re.sub(r'(["\\$`])', r"\\\1", word))


def _unless_excluded(match: re.Match[str] | None, exclude: str | None, text: str) -> re.Match[str] | None:
    if match is None or exclude is None or first_match(exclude, command_haystacks(text)) is None:
        return match
    return None
