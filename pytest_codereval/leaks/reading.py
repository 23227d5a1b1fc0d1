"""Reading many files within a budget, none of them through a link, a fifo or a device."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from .. import clock
from ..sandbox.answer_keys import is_task_file
from .tokens import CanaryReader

CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_SETTLED = 1.0
"""Seconds after its last change from which on the time stamps of a file tell every later change."""

_Signature = tuple[int, int, int, int, int]


@dataclasses.dataclass
class Budget:
    """How much may still be read: files, bytes of all, bytes of one. `short` tells that something was left out."""

    files: int = 20_000
    total: int = 512 << 20
    largest: int = 100 << 20
    short: bool = False

    def takes(self, size: int) -> bool:
        """Whether a file of so many bytes may be read; then it is counted."""
        if size > self.largest or self.files < 1 or size > self.total:
            self.short = True
            return False
        self.files -= 1
        self.total -= size
        return True


@dataclasses.dataclass(frozen=True)
class Facts:
    """What was read of a file: its size in bytes, its SHA-256, the canaries in it, whether it is a task file."""

    size: int
    sha256: str
    canaries: frozenset[str]
    is_task: bool = False


_known: dict[_Signature, Facts] = {}


def opened(path: str, budget: Budget) -> tuple[int, os.stat_result] | None:
    """A descriptor of a regular file within the budget, for the caller to close; None for anything else."""
    try:
        descriptor = os.open(path, _FLAGS)
    except (OSError, ValueError):
        return None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and budget.takes(found.st_size):
        return descriptor, found
    os.close(descriptor)
    return None


def pieces(descriptor: int, limit: int) -> Iterator[bytes]:
    """The content, up to a little more than `limit` bytes. Raises OSError."""
    size = 0
    while size <= limit and (chunk := os.read(descriptor, CHUNK)):
        size += len(chunk)
        yield chunk


def facts_of(path: str, budget: Budget) -> Facts | None:
    """Read a regular file; None for anything else, what cannot be read, and what is above the budget.

    A file that has not changed since is not read again.
    """
    if (known := _known_facts(path)) is not None:
        return known if budget.takes(known.size) else None
    if (file := opened(path, budget)) is None:
        return None
    descriptor, found = file
    try:
        settled = clock.now() - found.st_ctime > _SETTLED
        reader, total = CanaryReader(), hashlib.sha256()
        for piece in pieces(descriptor, budget.largest):
            total.update(piece)
            reader.feed(piece)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    facts = Facts(found.st_size, total.hexdigest(), reader.finish(), is_task_file(path))
    if settled:
        _known[_signature(found)] = facts
    return facts


def _known_facts(path: str) -> Facts | None:
    try:
        return _known.get(_signature(os.lstat(path)))
    except (OSError, ValueError):
        return None


def _signature(found: os.stat_result) -> _Signature:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def files_below(top: str, *, names: Collection[str] = (), places: Collection[str] = ()) -> Iterator[os.DirEntry[str]]:
    """The regular files of a tree, the upper ones first; links are not followed.

    Folders of these `names` and at these absolute `places` are left out. What cannot be listed counts as empty.
    """
    todo = [top]
    for folder in todo:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in names and entry.path not in places:
                    todo.append(entry.path)
            elif entry.is_file(follow_symlinks=False) and entry.path not in places:
                yield entry


def text_of(path: Path, limit: int) -> str | None:
    """The text of a regular file of at most `limit` bytes in UTF-8; None for anything else."""
    try:
        with open(os.open(path, _FLAGS), "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError):
        return None
    try:
        return data.decode("utf-8") if len(data) <= limit else None
    except UnicodeDecodeError:
        return None
