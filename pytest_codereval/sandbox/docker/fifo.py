"""The harness's end of a named pipe, of whose bytes only so many are kept."""

from __future__ import annotations

import array
import fcntl
import os
import select
import termios
from pathlib import Path

from ..enclosure import Owner

_CHUNK = 1 << 18


class Fifo:
    """A named pipe that `owner` may write to, by its path too; without one, who opens it before `seal`.

    At most `limit` bytes are kept, all while it is None.
    """

    def __init__(self, path: Path, owner: Owner | None) -> None:
        os.mkfifo(path, 0o600)
        self.reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if owner is None:
            os.fchmod(self.reader, 0o602)
        elif (owner.uid, owner.gid) != (os.getuid(), os.getgid()):
            os.fchown(self.reader, owner.uid, owner.gid)
        self.limit: int | None = None
        self.truncated = False
        self._kept = bytearray()

    def seal(self) -> None:
        """Nobody can open it from now on, unless by the right of its owner."""
        os.fchmod(self.reader, 0)

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
        """Take what is in it now and no more, so that a writer that lives on delays nothing."""
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
        if self.reader >= 0:
            os.close(self.reader)
            self.reader = -1
