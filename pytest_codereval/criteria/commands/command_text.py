"""The texts in which a pattern about a tool call is searched.

A text is searched as it was written; a shell text that could not be understood once more without its quotes and its
`sh -c` wrapper; long ones in windows, so that a pattern's `.*` cannot span the whole of a long script.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from ...sandbox.workspace import Unreadable

WINDOW = 2000
"""Characters of a text in which a pattern is searched at once."""

OVERLAP = 256
"""Characters that two windows share where one line is longer than a window."""

PARAMETERS_LIMIT = 256 * 1024
"""Characters of the JSON text of a call's parameters that are searched."""

_OPTION_CLUSTER = re.compile(r"-[A-Za-z]*c[A-Za-z]*")


def parameter_haystacks(tool: str, parameters: Mapping[str, object]) -> tuple[str, ...]:
    """Return the windows of the JSON text of a call's parameters, with and without `\\u` escapes where they differ.

    Raises Unreadable when they have no such text.
    """
    try:
        texts = [json.dumps(dict(parameters), default=str, ensure_ascii=escaped) for escaped in (True, False)]
    except (RecursionError, TypeError, ValueError) as error:
        raise Unreadable(f"the parameters of a call of {tool} cannot be written as JSON: {error}") from None
    return tuple(dict.fromkeys(window for text in texts for window in windows(text[:PARAMETERS_LIMIT])))


@functools.lru_cache(maxsize=8192)
def command_haystacks(command: str) -> tuple[str, ...]:
    """Return the windows of a shell text, each raw and, where it differs, normalised."""
    texts: dict[str, None] = {}
    for window in windows(command):
        texts[window] = None
        normal = normalise(window)
        if normal is not None:
            texts[normal] = None
    return tuple(texts)


def windows(text: str) -> tuple[str, ...]:
    """Cut a text into windows of at most `WINDOW` characters.

    The first is the head of the text wherever that ends. The others hold whole logical lines (a line that ends in
    a backslash belongs to the next) as far as they fit; a longer one is cut into overlapping pieces.
    """
    if len(text) <= WINDOW:
        return (text,)
    result = [text[:WINDOW]]
    packed = ""
    for line in _logical_lines(text):
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


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for line in text.splitlines(keepends=True):
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
