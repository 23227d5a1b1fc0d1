"""Splits server-sent events out of bytes that come in pieces of any size."""

from __future__ import annotations

import re

LONGEST_EVENT = 64_000_000
"""Bytes of one event; the data of a longer one is dropped and `overflowed` set."""

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class EventSplitter:
    """Gives the data of each event when the empty line behind it has come."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._scanned = 0
        self._data: list[bytes] = []
        self._size = 0
        self.overflowed = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that `piece` completes, without the field name, its lines joined by line feeds."""
        self._rest += piece
        found: list[bytes] = []
        begin = 0
        position = self._scanned
        while match := _LINE_END.search(self._rest, position):
            self._line(bytes(self._rest[begin : match.start()]), found)
            begin = position = match.end()
        del self._rest[:begin]
        self._scanned = max(0, len(self._rest) - 1)
        if len(self._rest) > LONGEST_EVENT:
            self._rest.clear()
            self._scanned = 0
            self.overflowed = True
        return found

    def finish(self) -> list[bytes]:
        """What the end of the stream completes: its last line end may be a carriage return."""
        found: list[bytes] = []
        if self._rest.endswith(b"\r"):
            self._line(bytes(self._rest[:-1]), found)
        self._rest.clear()
        return found

    def _line(self, line: bytes, found: list[bytes]) -> None:
        if not line:
            if self._data:
                found.append(b"\n".join(self._data))
            self._data, self._size = [], 0
            return
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        if field != b"data":
            return
        self._size += len(value)
        if self._size > LONGEST_EVENT:
            self._data, self.overflowed = [], True
            return
        self._data.append(value.removeprefix(b" "))
