"""Where shims wait for their answers: a pool of FIFOs below the spool.

A shim claims a place by making `replies/N.claim`, opens the FIFO `replies/N` for reading, and tells so in the index.
From then on the harness holds that FIFO only for writing, so that it learns at once when the shim is gone. A shim that
finds no place says so, and looks again when it could read one byte from the FIFO `replies/room`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator

from ..shims.shim import CLAIM, ROOM

AT_FIRST = 2
AT_MOST = 256
"""Shims that can wait at once for an answer; more of them wait for a place.

Each place is an open file of the harness, so there are few until they are needed.
"""

_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


@dataclasses.dataclass
class Place:
    """One FIFO. `handle` is open for both directions while it is free, and for writing only while a shim waits.

    `use` counts how often it was taken. A place that somebody replaced is `broken` and not used again.
    """

    number: int
    mark: tuple[int, ...]
    handle: int
    taken: bool = False
    broken: bool = False
    use: int = 0


class Replaced(OSError):
    """A place is not the one that was made, or not used as shims use it."""


class Places:
    """The pool, in the directory that `folder` is an open handle of. Not safe for threads by itself.

    `mode` is that of the FIFOs, which shims read.
    """

    def __init__(self, folder: int, mode: int) -> None:
        self._folder = folder
        self._mode = mode
        self._places: list[Place] = []
        self._wanting = 0
        self._room_mark, self._room = self._make(ROOM)
        self._grow(AT_FIRST)

    def take(self, number: int) -> Place:
        """Note that a shim waits at a place.

        Raises Replaced when that cannot be: there is no such place, or it was replaced, or another shim waits there;
        then both get no answer. Raises OSError when the harness cannot open it.
        """
        place = self._places[number] if number < len(self._places) else None
        if place is None or place.broken:
            raise Replaced
        if place.taken:
            self._renew(place)
            raise Replaced
        handle = self._open(str(number), os.O_WRONLY, place.mark)
        os.close(place.handle)
        place.handle = handle
        place.taken = True
        place.use += 1
        if number >= len(self._places) // 2:
            self._grow(2 * len(self._places))
        return place

    @staticmethod
    def tell(place: Place, line: bytes) -> None:
        """Send one short line to the shim that waits at the place."""
        with contextlib.suppress(OSError):
            os.write(place.handle, line)

    def waiting(self) -> Iterator[int]:
        """The handles on which an error tells that the shim is gone or has read its line."""
        return (place.handle for place in self._places if place.taken)

    def free(self, handle: int) -> None:
        """Make the place of this handle ready for the next shim."""
        for place in self._places:
            if place.taken and place.handle == handle:
                self._free(place)

    def give_room(self) -> None:
        """Have a shim that found no place look again, now or as soon as there is one."""
        known = len(self._places)
        if not any(map(self._is_free, self._places)):
            self._grow(2 * known or AT_FIRST)
        if len(self._places) > known or any(map(self._is_free, self._places)):
            self._call_in()
        else:
            self._wanting += 1

    def is_whole(self) -> bool:
        """Whether each FIFO is still the one that was made."""
        marks = {str(place.number): place.mark for place in self._places} | {ROOM: self._room_mark}
        try:
            return all(
                _mark(os.stat(name, dir_fd=self._folder, follow_symlinks=False)) == mark for name, mark in marks.items()
            )
        except OSError:
            return False

    def close(self) -> None:
        """Close all handles."""
        for handle in (self._room, *(place.handle for place in self._places if place.handle >= 0)):
            os.close(handle)
        self._places.clear()

    def _free(self, place: Place) -> None:
        os.close(place.handle)
        place.taken = False
        try:
            place.handle = self._open(str(place.number), os.O_RDWR, place.mark)
            _empty(place.handle)
        except OSError:
            place.handle, place.broken = -1, True
        else:
            self._release(place)

    def _release(self, place: Place) -> None:
        with contextlib.suppress(OSError):
            os.unlink(f"{place.number}{CLAIM}", dir_fd=self._folder)
        if self._wanting:
            self._wanting -= 1
            self._call_in()

    def _renew(self, place: Place) -> None:
        """Leave those who wait there without an answer, and put another FIFO in place of theirs."""
        os.close(place.handle)
        place.handle, place.taken = -1, False
        try:
            os.unlink(str(place.number), dir_fd=self._folder)
            place.mark, place.handle = self._make(str(place.number))
        except OSError:
            place.broken = True
        else:
            self._release(place)

    def _is_free(self, place: Place) -> bool:
        if place.taken or place.broken:
            return False
        try:
            os.stat(f"{place.number}{CLAIM}", dir_fd=self._folder, follow_symlinks=False)
        except OSError:
            return True
        return False

    def _call_in(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self._room, b"\n")

    def _grow(self, count: int) -> None:
        for number in range(len(self._places), min(count, AT_MOST)):
            try:
                self._places.append(Place(number, *self._make(str(number))))
            except OSError:
                return

    def _make(self, name: str) -> tuple[tuple[int, ...], int]:
        os.mkfifo(name, 0o600, dir_fd=self._folder)
        try:
            handle = self._open(name, os.O_RDWR)
            os.fchmod(handle, self._mode)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=self._folder)
            raise
        return _mark(os.fstat(handle)), handle

    def _open(self, name: str, mode: int, mark: tuple[int, ...] | None = None) -> int:
        try:
            handle = os.open(name, mode | _FLAGS, dir_fd=self._folder)
        except FileNotFoundError:
            raise Replaced from None
        if mark is not None and _mark(os.fstat(handle)) != mark:
            os.close(handle)
            raise Replaced
        return handle


def _empty(fifo: int) -> None:
    """Throw away what a shim that was killed did not read: it is still there if the shim is not quite gone yet."""
    with contextlib.suppress(BlockingIOError):
        os.read(fifo, 65536)


def _mark(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mode
