"""What is read of a pipe or a socket, of whose bytes only so many are kept."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios

_CHUNK = 1 << 18


class Kept:
    """The read end, which does not block. At most `limit` bytes are kept, all while it is None."""

    def __init__(self, reader: int, limit: int | None = None) -> None:
        self.reader = reader
        self.limit = limit
        self.truncated = False
        self._kept = bytearray()

    def read(self, at_most: int = _CHUNK) -> int:
        """Take what is there; the number of bytes, 0 when there is none or nobody writes any more."""
        try:
            data = os.read(self.reader, min(at_most, _CHUNK))
        except BlockingIOError:
            return 0
        room = len(data) if self.limit is None else self.limit - len(self._kept)
        if len(data) > room:
            self.truncated = True
        if room > 0:
            self._kept += data[:room]
        return len(data)

    def drain(self) -> None:
        """Take what is in the pipe now and no more, so that a writer that lives on delays nothing."""
        count = array.array("i", [0])
        fcntl.ioctl(self.reader, termios.FIONREAD, count)
        left = count[0]
        while left > 0 and (taken := self.read(left)):
            left -= taken

    def has_writer(self) -> bool:
        """Whether a process could still write."""
        poller = select.poll()
        poller.register(self.reader, 0)
        return not poller.poll(0)

    def content(self) -> bytes:
        return bytes(self._kept)

    def take(self) -> bytes:
        """What was kept since the last time, which frees its room."""
        taken = bytes(self._kept)
        self._kept.clear()
        return taken

    def close(self) -> None:
        """May be called twice."""
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1
