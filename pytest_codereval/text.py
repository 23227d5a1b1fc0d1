"""The one cleaning function for text that leaves the process, and shortening for people."""

from __future__ import annotations

import enum
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping

from .redaction import redact

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]")


def clean(text: str) -> str:
    """Return `text` without secrets, lone surrogates and control characters; the latter become visible escapes.

    Tab and line feed stay. CR LF becomes LF. The result can be written as UTF-8, XML and JSON and cannot move the
    cursor of a terminal.
    """
    text = redact(text)
    if text.isascii() and text.isprintable():
        return text
    text = text.replace("\r\n", "\n").encode("utf-8", "backslashreplace").decode("utf-8")
    return _CONTROL.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def wire(value: object) -> object:
    """Return `value` as what JSON and xdist can carry: None, bool, int, float, str, list and dict with str keys.

    Enums become their value; numbers that JSON lacks (NaN, infinity), paths and all other objects become their text;
    every string is cleaned.
    """
    if isinstance(value, enum.Enum):
        return wire(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bytes):
        return clean(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, os.PathLike):
        return clean(os.fsdecode(value))
    if isinstance(value, Mapping):
        return {clean(str(key)): wire(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [wire(item) for item in value]
    return clean(str(value))


def shorten(text: str, limit: int) -> str:
    """As `cut`, without secrets: half a secret could not be told any more."""
    return cut(redact(text), limit)


def head(text: str, limit: int) -> str:
    """The first `limit` characters of `text` without secrets."""
    return redact(text)[:limit]


def tail(text: str, limit: int) -> str:
    """The last `limit` characters of `text` without secrets."""
    return redact(text)[-limit:]


def cut(text: str, limit: int) -> str:
    """Return at most about `limit` characters of `text`: its head and its tail, and how much is left out between."""
    if len(text) <= limit:
        return text
    first = limit * 2 // 3
    last = limit - first
    return f"{text[:first]}\n... {len(text) - first - last} characters left out ...\n{text[-last:]}"


def texts_in(value: object) -> Iterator[str]:
    """Every text among the values of plain data, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, Collection):
        for item in value:
            yield from texts_in(item)
