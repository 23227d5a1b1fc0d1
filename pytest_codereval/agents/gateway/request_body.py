"""Reads the body of a request, within limits for one body and for all of a gateway."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from email.message import Message
from io import BufferedIOBase

LARGEST = 100_000_000
"""Bytes of one body."""

ROOM = 400_000_000
"""Bytes of all bodies of a gateway at one time."""

_PIECE = 1 << 20
_LONGEST_LINE = 4096


class BodyRefused(Exception):
    """A body that is not read to its end, with the status that says why."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Room:
    """How many bytes of bodies may be held."""

    def __init__(self, size: int = ROOM) -> None:
        self._lock = threading.Lock()
        self._left = size

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True

    def give_back(self, size: int) -> None:
        with self._lock:
            self._left += size


@contextlib.contextmanager
def read_body(headers: Message, source: BufferedIOBase, room: Room) -> Iterator[bytes]:
    """The whole body, by its length or its chunks. Raises BodyRefused, and ConnectionError when it ends too early."""
    body = bytearray()
    taken = 0
    try:
        for piece in _pieces(headers, source):
            if len(body) + len(piece) > LARGEST:
                raise BodyRefused(413, f"a request may have {LARGEST} bytes")
            if not room.take(len(piece)):
                raise BodyRefused(413, "too many large requests at one time")
            taken += len(piece)
            body += piece
        whole = bytes(body)
        body.clear()
        yield whole
    finally:
        room.give_back(taken)


def _pieces(headers: Message, source: BufferedIOBase) -> Iterator[bytes]:
    coding = headers.get_all("transfer-encoding") or []
    lengths = set(headers.get_all("content-length") or [])
    if coding:
        if lengths or [one.strip().lower() for one in coding] != ["chunked"]:
            raise BodyRefused(400, "the length of the request is not clear")
        yield from _chunks(source)
    elif lengths:
        text = lengths.pop()
        if lengths or not (text.isascii() and text.isdigit()):
            raise BodyRefused(400, "the length of the request is not clear")
        if len(text) > 12 or int(text) > LARGEST:
            raise BodyRefused(413, f"a request may have {LARGEST} bytes")
        yield from _exactly(source, int(text))


def _chunks(source: BufferedIOBase) -> Iterator[bytes]:
    while True:
        digits = _line(source).partition(b";")[0].strip()
        try:
            size = int(digits, 16) if digits.isalnum() and len(digits) <= 12 else -1
        except ValueError:
            size = -1
        if size < 0:
            raise BodyRefused(400, "a chunk of the request has no size")
        if size == 0:
            break
        yield from _exactly(source, size)
        if _line(source):
            raise BodyRefused(400, "a chunk of the request is longer than its size")
    for _ in range(100):
        if not _line(source):
            return
    raise BodyRefused(400, "the request has too many trailers")


def _line(source: BufferedIOBase) -> bytes:
    line = source.readline(_LONGEST_LINE)
    if not line:
        raise ConnectionError("the request broke off")
    if not line.endswith(b"\n"):
        raise BodyRefused(400, "a line of the request is too long")
    return line.rstrip(b"\r\n")


def _exactly(source: BufferedIOBase, size: int) -> Iterator[bytes]:
    while size:
        piece = source.read(min(size, _PIECE))
        if not piece:
            raise ConnectionError("the request broke off")
        size -= len(piece)
        yield piece
