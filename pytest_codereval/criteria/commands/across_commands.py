"""Patterns that name an operator of the shell, such as `a.*&&.*b`, and so match across commands."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence

from ...trajectory.shell import SimpleCommand
from .asked_commands import AskedPattern
from .interpreter_code import MASK

MOST_APART = 40
"""Commands of one text of which each stretch is looked at; of more only the whole."""

_OPERATOR = re.compile(r"&&|\|\||;;|[|;&\n]")
_NO_OPERATOR = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<!\S)#[^\n]*|\\.|[<>]&|&>", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class _Piece:
    """One command of a statement, and the operators before it."""

    command: SimpleCommand
    start: int
    end: int
    before: str = ""


def match_across(
    asked: AskedPattern, text: str, commands: Sequence[SimpleCommand]
) -> Iterator[tuple[str, tuple[SimpleCommand, ...]]]:
    """Yield each statement of `text` that the pattern matches because of an operator between `commands`, and its
    commands.

    A statement is made of commands, as written or with their variables filled in, without their data, and of the
    operators between them; the pattern must not match it without these operators. No two statements overlap.
    """
    for script in _scripts(text):
        pieces = _pieces(script, commands)
        found = [*_stretches(asked, pieces)] if 1 < len(pieces) <= MOST_APART else [(0, len(pieces))]
        matching = [pieces[start:end] for start, end in found if _statement(asked, pieces[start:end]) is not None]
        for part in matching:
            yield _statement(asked, part) or "", tuple(piece.command for piece in part)
        if matching:
            return


def _stretches(asked: AskedPattern, pieces: Sequence[_Piece]) -> Iterator[tuple[int, int]]:
    """The shortest stretches of commands that match, from left to right."""
    begin = 0
    if _statement(asked, pieces) is None:
        return
    while begin < len(pieces):
        ends = range(begin + 2, len(pieces) + 1)
        end = next((end for end in ends if _statement(asked, pieces[begin:end]) is not None), None)
        if end is None:
            return
        starts = range(end - 2, begin - 1, -1)
        yield next(start for start in starts if _statement(asked, pieces[start:end]) is not None), end
        begin = end


def _statement(asked: AskedPattern, pieces: Sequence[_Piece]) -> str | None:
    if len(pieces) < 2:
        return None
    for filled in (False, True):
        texts = [_without_data(piece.command, filled) for piece in pieces]
        statement = texts[0] + "".join(piece.before + text for piece, text in zip(pieces[1:], texts[1:], strict=True))
        if asked.match_in(statement) and not asked.match_in(" ".join(texts)):
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


def _pieces(script: str, commands: Sequence[SimpleCommand]) -> list[_Piece]:
    """The commands with the operators between them; those within the words of another one are left out."""
    found: list[_Piece] = []
    for command in commands:
        for kept in range(len(found), -1, -1):
            start = script.find(command.raw, found[kept - 1].end if kept else 0) if command.raw else -1
            end = start + len(command.raw)
            if start >= 0 and (kept == len(found) or (start <= found[kept].start and found[-1].end <= end)):
                found[kept:] = [_Piece(command, start, end)]
                break
            if kept == len(found) and not any(piece.command.raw in command.raw for piece in found):
                break
    for place, (before, piece) in enumerate(itertools.pairwise(found), start=1):
        gap = script[before.end : piece.start].replace(before.command.stdin or "\0", " ")
        found[place] = dataclasses.replace(piece, before=_operators(gap))
    return found


def _operators(gap: str) -> str:
    found = _OPERATOR.findall(_NO_OPERATOR.sub(" ", gap))
    return "".join("\n" if operator == "\n" else f" {operator} " for operator in found) or " "


def _without_data(command: SimpleCommand, filled: bool) -> str:
    text = " ".join((*command.prefixed, *command.words)) if filled else command.raw
    for part in sorted((part for part in command.data if part and part != command.stdin), key=len, reverse=True):
        if part not in text:
            return MASK
        text = text.replace(part, MASK)
    return text
