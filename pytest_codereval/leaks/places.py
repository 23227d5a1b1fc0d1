"""Paths that the agent was never told: where they are named, it looked for them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..sandbox.host_path import lies_in

_FEWEST_PARTS = 3
"""A path of fewer parts, such as `/` or `/app`, is named by accident."""

_NAME = rb"[\w.-]"


def usable_places(places: Mapping[str, Path], allowed: Iterable[Path]) -> dict[str, str]:
    """Which of the named places can be looked for, as they are given and with links resolved: path to name.

    Left out are those that lie above or in what is `allowed` to be named as a whole, and those too short to mean
    anything.
    """
    free = [os.path.realpath(path) for path in allowed]
    found: dict[str, str] = {}
    for name, place in places.items():
        for path in (os.path.normpath(place.absolute()), os.path.realpath(place)):
            if len(Path(path).parts) >= _FEWEST_PARTS and not any(lies_in(path, each) for each in free):
                found.setdefault(path, name)
    return found


class PlaceFinder:
    """Looks for paths in data that comes in pieces. `found` holds the names of the places.

    `places` maps paths to names; what lies below an `allowed` path may be named. A path counts whole, not as the
    beginning of another name, and not as the end of a longer path.
    """

    def __init__(self, places: Mapping[str, str], allowed: Iterable[Path] = ()) -> None:
        self.found: set[str] = set()
        free = [os.fsencode(form) for path in allowed for form in {str(path), os.path.realpath(path)}]
        self._patterns = {os.fsencode(path): (_pattern(os.fsencode(path), free), name) for path, name in places.items()}
        self._overlap = max((len(each) for each in (*self._patterns, *free)), default=0) + 2
        self._end = b""

    def restart(self) -> None:
        """What comes next does not follow what came before; nothing has been found in it."""
        self.found = set()
        self._end = b""

    def feed(self, piece: bytes) -> None:
        """Take the next piece; a path near its end is looked at together with the next."""
        data = self._end + piece
        self._look(data, len(data) - self._overlap)
        self._end = data[-2 * self._overlap :]

    def finish(self) -> frozenset[str]:
        """The names of all places that were found. No piece follows."""
        self._look(self._end, len(self._end))
        return frozenset(self.found)

    def _look(self, data: bytes, end: int) -> None:
        """Note the paths that begin before `end`."""
        for path, (pattern, name) in self._patterns.items():
            if name in self.found or path not in data:
                continue
            if any(match.start() <= end for match in pattern.finditer(data)):
                self.found.add(name)


def _pattern(path: bytes, free: Iterable[bytes]) -> re.Pattern[bytes]:
    rests = [re.escape(each[len(path) :]) for each in free if each.startswith(path.rstrip(b"/") + b"/")]
    unless = b"".join(b"(?!" + rest + b"(?!" + _NAME + b"))" for rest in rests)
    return re.compile(rb"(?<![\w.-])" + re.escape(path) + unless + b"(?!" + _NAME + b")")
