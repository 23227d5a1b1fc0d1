"""Words and formats of POSIX sh, by which any bytes can be printed and any path named."""

from __future__ import annotations

import string

_PLAIN = frozenset(string.printable[:95].encode()) - frozenset(b"'\\%$`")
_FORMATS = {10: "\\n", 37: "%%"}
_TABLE = [_FORMATS.get(byte, chr(byte) if byte in _PLAIN else f"\\{byte:03o}") for byte in range(256)]


def quote(text: str) -> str:
    """Return `text` as one word of a shell, always in single quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def printf_format(data: bytes) -> str:
    """Return the format with which printf(1) prints `data` byte by byte: plain ASCII without quotes.

    A dash at the start would be read as an option, so it is escaped too.
    """
    escaped = "".join(map(_TABLE.__getitem__, data))
    return f"\\055{escaped[1:]}" if escaped.startswith("-") else escaped
