"""Watches what a sandbox takes of the disk, which no namespace bounds."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ..errors import Cause, TrialError

FLOOR = 256 << 20
"""Bytes that stay free on the disk: below, whoever is at work there is stopped."""

MOST_ENTRIES = 2_000_000
"""Files and directories of one sandbox."""

_PAUSE = 0.25
_SHARE = 10
"""A look at a large tree is followed by a pause of so many times its length, so that watching costs little."""


class DiskWatch:
    """Looks at `folders` until `close`; `fault` is why the sandbox had to be stopped, by a call of `stop`."""

    def __init__(self, folders: Sequence[Path], max_bytes: int | None, stop: Callable[[], None]) -> None:
        self._folders = tuple(folders)
        self._max_bytes = max_bytes
        self._stop = stop
        self._closing = threading.Event()
        self.fault: TrialError | None = None
        self._thread = threading.Thread(target=self._watch, name="codereval-disk", daemon=True)
        self._thread.start()

    def look(self) -> None:
        """Look once more, now."""
        if self.fault is None and (reason := self._reason()) is not None:
            self.fault = TrialError(Cause.OUT_OF_SPACE, reason)

    def refuse(self) -> None:
        """Raise TrialError(OUT_OF_SPACE) when the sandbox had to be stopped."""
        if self.fault is not None:
            raise self.fault

    def close(self) -> None:
        """Watch no more. May be called twice."""
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = _PAUSE
        while not self._closing.wait(pause):
            begin = time.perf_counter()
            try:
                self.look()
                if self.fault is not None:
                    self._stop()
            except Exception as error:
                self.fault = TrialError(Cause.SANDBOX, f"the disk cannot be watched: {type(error).__name__}: {error}")
                return
            pause = max(_PAUSE, _SHARE * (time.perf_counter() - begin))

    def _reason(self) -> str | None:
        try:
            disk = os.statvfs(self._folders[0])
        except OSError:
            return None
        if disk.f_bavail * disk.f_frsize < FLOOR:
            return f"less than {FLOOR >> 20} MB are free on the disk that sandboxes lie on"
        if disk.f_files and disk.f_favail < 1000:
            return "no room for further files is left on the disk that sandboxes lie on"
        return self._reason_of_trees() if self._max_bytes is not None else None

    def _reason_of_trees(self) -> str | None:
        assert self._max_bytes is not None
        taken = entries = 0
        counted: set[tuple[int, int]] = set()
        todo = [os.fspath(folder) for folder in self._folders]
        while todo:
            for found in _stats(todo.pop(), todo):
                entries += 1
                if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
                    if (found.st_dev, found.st_ino) in counted:
                        continue
                    counted.add((found.st_dev, found.st_ino))
                taken += found.st_blocks * 512
            if taken > self._max_bytes:
                return f"the sandbox takes more than the {self._max_bytes >> 20} MB of limits.max_disk_mb"
            if entries > MOST_ENTRIES:
                return f"the sandbox holds more than {MOST_ENTRIES} files and directories"
        return None


def _stats(folder: str, todo: list[str]) -> list[os.stat_result]:
    """What lies in a folder; the folders among it are added to `todo`."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                found.append(entry.stat(follow_symlinks=False))
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
    except OSError:
        return found
    return found
