"""The words of a shell command line as Codex prints them, and the command that it wrapped in a shell."""

from __future__ import annotations

import re

_SHELL = re.compile(r"(?:.*/)?(?:bash|zsh|sh|dash)")
_WORD = re.compile(r"""(?: '[^']*' | "(?:\\.|[^"\\])*" | \\. | [^\s'"\\] )+""", re.VERBOSE | re.DOTALL)
_PIECE = re.compile(r"""'([^']*)' | "((?:\\.|[^"\\])*)" | \\(.) | ([^\s'"\\]+)""", re.VERBOSE | re.DOTALL)
_IN_DOUBLE_QUOTES = re.compile(r'\\([$`"\\\n])')


def split(text: str) -> list[str] | None:
    """The words of a line that holds nothing but quoted words, None for another."""
    words = []
    place = 0
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        found = _WORD.match(text, place)
        if found is None or not (found.end() == len(text) or text[found.end()].isspace()):
            return None
        words.append("".join(map(_unquoted, _PIECE.finditer(found.group()))))
        place = found.end()
    return words


def _unquoted(piece: re.Match[str]) -> str:
    single, double, escaped, plain = piece.groups()
    if double is not None:
        return _IN_DOUBLE_QUOTES.sub(lambda found: "" if found[1] == "\n" else found[1], double)
    return next(text for text in (single, escaped, plain) if text is not None)


def unwrapped(command: str) -> str:
    """The command without the one shell that Codex starts for it, such as `/bin/bash -lc '...'`."""
    return inner(split(command) or []) or command


def inner(words: list[str]) -> str | None:
    """What the shell of such a call is told to run, None when the words are none."""
    if len(words) == 3 and words[1] in ("-lc", "-c") and _SHELL.fullmatch(words[0]):
        return words[2]
    return None
