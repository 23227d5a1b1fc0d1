"""What a command_executed criterion asks of one simple command: a pattern in its text, or facets of its arguments."""

from __future__ import annotations

import dataclasses
import enum
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from ..recorder.argv import ArgvPattern, compare, pattern_of
from ..recorder.invocation import Invocation
from ..recorder.options import OptionTable
from ..task.command_models import CommandExecuted
from ..trajectory.shell import SimpleCommand
from .command_text import command_haystacks, windows
from .patterns import search

MASK = "\ufffc"
"""Stands in a text where data was taken out."""

_INTERPRETER = re.compile(
    r"(?:python|pypy|ipython)[\d.]*|node|nodejs|deno|bun|tsx|ts-node|perl|ruby|php|lua|Rscript|osascript|pwsh|powershell"
)
_BLANK = re.compile(r"\s")
_COMMAND_LINE = re.compile(r"\$?\{?[A-Za-z_/.][\w./+-]*\}?\s+\S")
_QUOTED_CODE = re.compile(
    r'"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|`(?:\\.|[^`\\])*`|#[^\n]*|//[^\n]*',
    re.DOTALL,
)


class Found(enum.Enum):
    """How a command answers to what is asked."""

    NOWHERE = "nowhere"
    COMMAND = "command"
    VARIABLE = "variable"
    """As a command whose program is a variable of the tool's name, such as `$UIP`."""
    ARGUMENT = "argument"
    """As a whole command line within one argument of another program, such as `ssh`, which may run it."""
    MENTION = "mention"
    """Only in a text that the command prints, searches or writes."""
    CODE = "code"
    """In the code of an interpreter, outside of its quotes."""
    CODE_TEXT = "code text"
    """In the code of an interpreter, within quotes: it may be a command that the code runs."""
    EXCLUDED = "excluded"


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

    def difference(self, tool: str, argv: Sequence[str]) -> str:
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
        return _unless_excluded(_first_match(self.pattern, command_haystacks(text)), self.exclude, text)

    def answers(self, invocation: Invocation) -> bool:
        return _first_match(self.pattern, spellings(invocation)) is not None

    def excludes(self, invocation: Invocation) -> bool:
        return self.exclude is not None and _first_match(self.exclude, spellings(invocation)) is not None

    def difference(self, tool: str, argv: Sequence[str]) -> str:
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
            if not compare(self.pattern, command.words[1:]).matched:
                return Found.NOWHERE
            if excluded(self.exclude, command):
                return Found.EXCLUDED
            return Found.COMMAND if command.known[0] else Found.VARIABLE
        if not command.data or not any(self._resembles(text) for text in _data_texts(command)):
            return Found.NOWHERE
        return Found.CODE_TEXT if _runs_code(command) else Found.MENTION

    def match_in(self, text: str) -> re.Match[str] | None:
        match = next(filter(None, map(self._resembles, command_haystacks(text))), None)
        return _unless_excluded(match, self.exclude, text)

    def answers(self, invocation: Invocation) -> bool:
        return invocation.tool == self.tool and compare(self.pattern, invocation.argv).matched

    def excludes(self, invocation: Invocation) -> bool:
        return self.exclude is not None and _first_match(self.exclude, spellings(invocation)) is not None

    def difference(self, tool: str, argv: Sequence[str]) -> str:
        return compare(self.pattern, argv).difference if tool == self.tool else ""

    def _calls_tool(self, command: SimpleCommand) -> bool:
        if not command.words or command.known[0]:
            return command.program == self.tool
        return command.words[0].strip('"').lstrip("$").strip("{}").casefold() == self.tool.casefold()

    def _resembles(self, text: str) -> re.Match[str] | None:
        """The tool's name and after it, in the same command, the words of a verb."""
        verbs = "|".join(r"[^\n;&|]*?\s".join(map(re.escape, verb)) for verb in self.pattern.verbs)
        tail = rf"[^\n;&|]*?\s(?:{verbs})(?![\w-])" if verbs else ""
        return search(rf"(?<![\w-]){re.escape(self.tool)}(?![\w-]){tail}", text)


def found(pattern: str, command: SimpleCommand) -> Found:
    """How `pattern` is found in the texts of `command`."""
    if _first_match(pattern, texts_of(command)) is None:
        return Found.NOWHERE
    if _only_in(pattern, command, _data_texts(command), command.data):
        return _in_data(pattern, command)
    longer = [word for word in command.words[1:] if _BLANK.search(word)]
    match = _first_match(pattern, longer)
    if match is not None and _COMMAND_LINE.match(match.group()) and _only_in(pattern, command, longer, longer):
        return Found.ARGUMENT
    return Found.COMMAND


def _only_in(pattern: str, command: SimpleCommand, texts: Sequence[str], data: Sequence[str]) -> bool:
    """Whether the pattern is found in one of `texts` and not in the command without `data`."""
    return _first_match(pattern, texts) is not None and _first_match(pattern, masked_texts(command, data)) is None


def _in_data(pattern: str, command: SimpleCommand) -> Found:
    if not _runs_code(command):
        return Found.MENTION
    code = [_QUOTED_CODE.sub(MASK, text) for text in command.data]
    return Found.CODE if _first_match(pattern, code) is not None else Found.CODE_TEXT


def excluded(pattern: str | None, command: SimpleCommand) -> bool:
    """Whether `pattern` takes `command` out; a mention does not."""
    return pattern is not None and found(pattern, command) in (Found.COMMAND, Found.ARGUMENT, Found.CODE)


def texts_of(command: SimpleCommand) -> tuple[str, ...]:
    """The texts of a command in which a pattern is searched; a line end behind it serves patterns that end in `\\s`."""
    texts = [command.raw, f"{command.raw}\n", command.text, _with_prefixes(command)]
    if command.stdin is not None:
        texts.append(f"{command.raw}\n{command.stdin}")
    return tuple(dict.fromkeys(texts))


def _with_prefixes(command: SimpleCommand) -> str:
    return " ".join((*command.prefixed, *command.words))


def masked_texts(command: SimpleCommand, data: Sequence[str]) -> tuple[str, ...]:
    """The texts of a command with `data` taken out; one in which some data cannot be located is left out."""
    longest_first = sorted(filter(None, data), key=len, reverse=True)
    texts = [command.text, _with_prefixes(command)]
    if all(text in command.raw for text in longest_first if text != command.stdin):
        texts.append(f"{command.raw}\n")
    return tuple(dict.fromkeys(_masked(text, longest_first) for text in texts))


def _masked(text: str, data: Iterable[str]) -> str:
    for part in data:
        text = text.replace(part, MASK)
    return text


def spellings(invocation: Invocation) -> tuple[str, ...]:
    """How a recorded call may have been written: quoted for a shell, unquoted, and with double quotes."""
    words = (invocation.tool, *invocation.argv)
    quoted = shlex.join(words)
    return tuple(dict.fromkeys((quoted, f"{quoted}\n", " ".join(words), " ".join(map(_double_quoted, words)))))


def _double_quoted(word: str) -> str:
    if word and shlex.quote(word) == word:
        return word
    return '"{}"'.format(re.sub(r'(["\\$`])', r"\\\1", word))


def _data_texts(command: SimpleCommand) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*command.data, " ".join(command.data))))


def _runs_code(command: SimpleCommand) -> bool:
    return _INTERPRETER.fullmatch(command.program) is not None


def _first_match(pattern: str, texts: Sequence[str]) -> re.Match[str] | None:
    parts = (window for text in texts for window in windows(text))
    return next(filter(None, (search(pattern, part, re.DOTALL) for part in parts)), None)


def _unless_excluded(match: re.Match[str] | None, exclude: str | None, text: str) -> re.Match[str] | None:
    if match is None or exclude is None or _first_match(exclude, command_haystacks(text)) is None:
        return match
    return None
