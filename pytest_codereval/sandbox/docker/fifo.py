"""The harness's end of a named pipe, of whose bytes only so many are kept."""

from __future__ import annotations

import os
from pathlib import Path

from ..enclosure import Owner
from ..kept import Kept


class Fifo(Kept):
    """A named pipe that `owner` may write to, by its path too; without one, who opens it before `seal`."""

    def __init__(self, path: Path, owner: Owner | None) -> None:
        os.mkfifo(path, 0o600)
        super().__init__(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
        if owner is None:
            os.fchmod(self.reader, 0o602)
        elif (owner.uid, owner.gid) != (os.getuid(), os.getgid()):
            os.fchown(self.reader, owner.uid, owner.gid)

    def seal(self) -> None:
        """Nobody can open it from now on, unless by the right of its owner."""
        os.fchmod(self.reader, 0)
