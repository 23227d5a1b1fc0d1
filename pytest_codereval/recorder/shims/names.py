"""Which files are written for a recorded tool; the writer and the collision guard use the same names."""

from __future__ import annotations

import os
from collections.abc import Iterable

_FOUND_ON_WINDOWS = ("", ".cmd", ".bat", ".exe")
_WRITTEN_ON_WINDOWS = ("", ".cmd")


def written_names(tool: str, *, windows: bool = os.name == "nt") -> tuple[str, ...]:
    """The file names written for `tool`, the shim itself first."""
    return tuple(tool + ending for ending in (_WRITTEN_ON_WINDOWS if windows else ("",)))


def generated_names(tool: str) -> frozenset[str]:
    """Every file name that answers to `tool` on any platform. Compare case-folded: file systems may ignore case."""
    return frozenset(tool + ending for ending in _FOUND_ON_WINDOWS)


def collisions(tool: str, present: Iterable[str]) -> tuple[str, ...]:
    """The names of `present` that would answer to `tool` too, sorted."""
    folded = {name.casefold() for name in generated_names(tool)}
    return tuple(sorted(name for name in present if name.casefold() in folded))
