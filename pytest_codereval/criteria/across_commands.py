"""Patterns that name an operator of the shell, such as `a.*&&.*b`, and so match across commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from ..trajectory.shell import SimpleCommand
from .asked_commands import MASK, AskedPattern

_OPERATOR = re.compile(r"&&|\|\||;;|[|;&\n]")
_NO_OPERATOR = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<!\S)#[^\n]*|\\.|[<>]&|&>", re.DOTALL)


def match_across(asked: AskedPattern, text: str, commands: Sequence[SimpleCommand]) -> str | None:
    """Return the statement of `text` that the pattern matches because of an operator between `commands`, or None.

    The statement is made of the commands, without their data, and of the operators between them; the pattern must not
    match it without these operators.
    """
    for script in _scripts(text):
        pieces = _pieces(script, commands)
        statement = "".join(pieces)
        if len(pieces) > 1 and asked.match_in(statement) and not asked.match_in(" ".join(pieces[::2])):
            return statement
    return None


def _scripts(text: str) -> tuple[str, ...]:
    """The text, and what a shell such as `bash -lc` that is the whole of it was given."""
    try:
        words = shlex.split(text)
    except ValueError:
        return (text,)
    wrapped = len(words) == 3 and words[0].endswith("sh") and words[1].startswith("-") and words[1].endswith("c")
    return (text, words[2]) if wrapped else (text,)


def _pieces(script: str, commands: Sequence[SimpleCommand]) -> list[str]:
    """Commands and the operators between them in turn, from command to command."""
    pieces: list[str] = []
    end = 0
    before: SimpleCommand | None = None
    for command in commands:
        start = script.find(command.raw, end) if command.raw else -1
        if start < 0:
            continue
        if before is not None:
            gap = script[end:start].replace(before.stdin or "\0", " ")
            pieces.append(_operators(gap))
        pieces.append(_without_data(command))
        end = start + len(command.raw)
        before = command
    return pieces


def _operators(gap: str) -> str:
    found = _OPERATOR.findall(_NO_OPERATOR.sub(" ", gap))
    return "".join("\n" if operator == "\n" else f" {operator} " for operator in found) or " "


def _without_data(command: SimpleCommand) -> str:
    text = command.raw
    for part in sorted((part for part in command.data if part and part != command.stdin), key=len, reverse=True):
        if part not in text:
            return MASK
        text = text.replace(part, MASK)
    return text
