"""Where in a simple command a pattern is found: in the command, or in a text that it prints, searches or runs."""

from __future__ import annotations

import enum
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from ...trajectory.shell import SimpleCommand
from ..patterns import search
from .command_text import WINDOW, windows
from .interpreter_code import MASK, code_of, runs_code, without_strings

BORDERS = ("", " ", "\n", '"', "'")
"""What may stand before and behind a text; patterns often ask for it (`uip\\s+deploy["'\\s]`)."""

SEARCHERS = frozenset("grep egrep fgrep zgrep rg ag ack ls find set".split())
"""Programs whose arguments are what they look for, and where."""

GIT_SEARCHES = frozenset("grep log diff show".split())

FILE_TOOLS = frozenset(
    "cat cd chmod chown cmp cp diff du file head less ls ln mkdir more mv pushd rm rmdir sort stat tail tar touch wc"
    " zip unzip sed source".split()
)
"""Programs whose arguments with blanks are names of files."""

_BLANK = re.compile(r"\s")
_REDIRECTION = re.compile(r"[<>]")
_PATH = re.compile(r"[./]")
_VALUE = re.compile(r"(?:-{0,2}[A-Za-z_][\w-]*)=(.+)", re.DOTALL)
_COMMAND_LINE = re.compile(r"[\"'\s]?\$?\{?[A-Za-z_/.][\w./+-]*\}?\s+\S")


class Found(enum.Enum):
    """How a command answers to what is asked."""

    NOWHERE = "nowhere"
    COMMAND = "command"
    VARIABLE = "variable"
    """As a command whose program is a variable of the tool's name, such as `$UIP`."""
    POSSIBLE = "possible"
    """As a command that is one only if words that are not known are what is asked for."""
    ARGUMENT = "argument"
    """As a whole command line within one argument of another program, such as `ssh`, which may run it."""
    MENTION = "mention"
    """Only in a text that the command prints, searches or writes."""
    CODE = "code"
    """In the code of an interpreter, outside of its quotes."""
    CODE_TEXT = "code text"
    """In the code of an interpreter, within quotes: it may be a command that the code runs."""
    EXCLUDED = "excluded"


def found(pattern: str, command: SimpleCommand) -> Found:
    """How `pattern` is found in the texts of `command`."""
    if first_match(pattern, texts_of(command)) is None:
        return Found.NOWHERE
    if _only_in(pattern, command, data_texts(command), command.data) is not None:
        return _in_data(pattern, command)
    if _only_searched(pattern, command):
        return Found.MENTION
    longer = long_arguments(command)
    match = _only_in(pattern, command, longer, longer)
    if match is None or not _COMMAND_LINE.match(match.group()):
        return Found.COMMAND
    if command.program in FILE_TOOLS:
        return Found.COMMAND if _PATH.search(match.group()) else Found.MENTION
    return Found.ARGUMENT


def excluded(pattern: str | None, command: SimpleCommand) -> bool:
    """Whether `pattern` takes `command` out; a mention does not."""
    return pattern is not None and found(pattern, command) in (Found.COMMAND, Found.ARGUMENT, Found.CODE)


def texts_of(command: SimpleCommand) -> tuple[str, ...]:
    """The texts of a command in which a pattern is searched; a line end behind it serves patterns that end in `\\s`."""
    texts = [command.raw, f"{command.raw}\n", command.text, _with_prefixes(command)]
    if command.stdin is not None:
        texts.append(f"{command.raw}\n{command.stdin}")
    return tuple(dict.fromkeys(texts))


def masked_texts(command: SimpleCommand, data: Sequence[str]) -> tuple[str, ...]:
    """The texts of a command with `data` taken out; one in which some data cannot be located is left out."""
    longest_first = sorted(filter(None, data), key=len, reverse=True)
    texts = [command.text, _with_prefixes(command)]
    if all(text in command.raw for text in longest_first if text != command.stdin):
        texts.append(f"{command.raw}\n")
    return tuple(dict.fromkeys(_masked(text, longest_first) for text in texts))


def long_arguments(command: SimpleCommand) -> list[str]:
    """The arguments that hold more than one word."""
    return [word for word in command.words[1:] if _BLANK.search(word)]


def data_texts(command: SimpleCommand) -> tuple[str, ...]:
    """The data of a command each by itself, all together, and the values of those that name one (`NAME=value`).

    Where all arguments are data, also as they were written, up to a redirection.
    """
    values = [match[1] for match in map(_VALUE.fullmatch, command.data) if match]
    if len(command.words) > 1 and " ".join(command.words[1:]) in command.data:
        values.append(_REDIRECTION.split(command.raw.partition(command.words[0])[2])[0])
    return tuple(dict.fromkeys((*command.data, " ".join(command.data), *values)))


def first_match(pattern: str, texts: Iterable[str]) -> re.Match[str] | None:
    """The first match in one of the windows of `texts`; a dot matches line ends."""
    parts = (window for text in texts for window in windows(text))
    return next(filter(None, (search(pattern, part, re.DOTALL) for part in parts)), None)


def _with_prefixes(command: SimpleCommand) -> str:
    return " ".join((*command.prefixed, *command.words))


def _masked(text: str, data: Iterable[str]) -> str:
    for part in data:
        text = text.replace(part, MASK)
    return text


def _only_in(pattern: str, command: SimpleCommand, texts: Sequence[str], data: Sequence[str]) -> re.Match[str] | None:
    """The match in one of `texts`, with what may stand around it, unless the command has one without `data`."""
    if not any(texts) or first_match(pattern, masked_texts(command, data)) is not None:
        return None
    return first_match(pattern, texts) or first_match(pattern, _bordered(texts, command.raw))


def _bordered(texts: Iterable[str], raw: str) -> Iterator[str]:
    """Each text with what stands beside it in `raw`, and between the usual borders; of long ones the ends."""
    for text in filter(None, texts):
        at = raw.find(text)
        if at >= 0:
            yield raw[max(at - 1, 0) : at + len(text) + 1]
        head, tail = text[: WINDOW // 2], text[-WINDOW // 2 :]
        for before, behind in itertools.product(BORDERS, BORDERS):
            if len(text) <= WINDOW // 2:
                yield f"{before}{text}{behind}"
            elif not before or not behind:
                yield f"{before}{head}" if before else f"{tail}{behind}"


def _only_searched(pattern: str, command: SimpleCommand) -> bool:
    """Whether several arguments of a program that searches or lists match together, and nothing else does."""
    at = _first_searched(command.words)
    if at is None:
        return False
    arguments = command.words[at:]
    if first_match(pattern, arguments) is not None:
        return False
    head = " ".join((*command.prefixed, *command.words[:at], MASK))
    texts = [" ".join(arguments)]
    match = first_match(pattern, texts) or first_match(pattern, _bordered(texts, ""))
    return match is not None and first_match(pattern, [head]) is None


def _first_searched(words: Sequence[str]) -> int | None:
    """The place of the first argument of a program that searches or lists, or None for other programs."""
    program = words[0].rpartition("/")[2] if words else ""
    if program in SEARCHERS:
        return None if program == "find" and any(word.startswith(("-exec", "-ok")) for word in words) else 1
    if program != "git":
        return None
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    return at + 1 if words[at : at + 1] and words[at] in GIT_SEARCHES else None


def _in_data(pattern: str, command: SimpleCommand) -> Found:
    if not runs_code(command):
        return Found.MENTION
    code = code_of(command)
    if first_match(pattern, [without_strings(command, text) for text in code]) is not None:
        return Found.CODE
    in_code = first_match(pattern, code) or first_match(pattern, _bordered(code, ""))
    return Found.MENTION if in_code is None else Found.CODE_TEXT
