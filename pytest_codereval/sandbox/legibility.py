"""Files of the harness that the user of a sandbox cannot read, although graders and hooks there are meant to."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from ..errors import Cause, TrialError
from .copying import Destination
from .enclosure import Mount, Owner

LARGEST_COPY = 1 << 30
"""Bytes of a folder that is copied so that it can be read."""

MOST_ENTRIES = 100_000

_Entry = tuple[str, os.stat_result]


class Legible:
    """Mounts by which another user than the harness can read places of the harness; copies lie below `folder`."""

    def __init__(self, folder: Path, owner: Owner | None) -> None:
        self._folder = folder
        self._owner = owner
        self._copies: dict[Path, Path] = {}

    def whole(self, path: Path) -> list[Mount]:
        """A place all of which is to be read: itself, or a copy. Raises TrialError(SANDBOX) when that is too large."""
        source = Path(os.path.realpath(path))
        if self._owner is None or not os.path.lexists(source):
            return [Mount(source, path)]
        if path not in self._copies:
            self._copies[path] = self._readable(source)
        return [Mount(self._copies[path], path)]

    def outline(self, path: Path) -> list[Mount]:
        """A folder of which anything may be read: itself, or what lies in it where the folder alone is private."""
        source = Path(os.path.realpath(path))
        if self._owner is None or not source.is_dir() or may_read(source.stat(), self._owner):
            return [Mount(source, path)]
        with os.scandir(source) as entries:
            return [Mount(Path(os.path.realpath(entry.path)), path / entry.name) for entry in entries]

    def _readable(self, source: Path) -> Path:
        assert self._owner is not None
        entries = list(_entries(source))
        if all(may_read(found, self._owner) for _, found in entries if not stat.S_ISLNK(found.st_mode)):
            return source
        size = sum(found.st_size for _, found in entries if stat.S_ISREG(found.st_mode))
        if size > LARGEST_COPY or len(entries) > MOST_ENTRIES:
            raise TrialError(
                Cause.SANDBOX,
                f"{source} holds files that the user {self._owner.uid} cannot read, as whom sandboxes run when pytest "
                f"runs as root, and is too large to be copied; run `chmod -R o+rX` on it, or pytest as a normal user",
            )
        copy = self._folder / str(len(self._copies) + 1)
        _copy(source, copy, entries)
        return copy if source.is_dir() else copy / source.name


def may_read(found: os.stat_result, owner: Owner) -> bool:
    """Whether a user can read a file, or list and enter a folder, going by its permissions."""
    needed = 0o5 if stat.S_ISDIR(found.st_mode) else 0o4
    shift = 6 if found.st_uid == owner.uid else 3 if found.st_gid == owner.gid else 0
    return (found.st_mode >> shift) & needed == needed


def _entries(source: Path) -> Iterator[_Entry]:
    """The relative paths of a file or a tree, parents first, "" for the source itself. At most one too many."""
    yield "", source.stat()
    todo = [""] if source.is_dir() else []
    count = 0
    while todo:
        folder = todo.pop()
        with os.scandir(source / folder) as entries:
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                yield path, entry.stat(follow_symlinks=False)
                count += 1
                if count > MOST_ENTRIES:
                    return
                if entry.is_dir(follow_symlinks=False):
                    todo.append(path)


def _copy(source: Path, copy: Path, entries: list[_Entry]) -> None:
    """Copy with the same names; everyone who can reach the copy can read it, and run what can be run."""
    copy.mkdir(0o755, parents=True)
    copy.parent.chmod(0o755)
    destination = Destination(copy)
    if not source.is_dir():
        destination.copy(source, source.name)
    for path, found in entries[1:]:
        if stat.S_ISLNK(found.st_mode):
            destination.link(path, str((source / path).readlink()))
        elif stat.S_ISDIR(found.st_mode):
            destination.folder(path)
        elif stat.S_ISREG(found.st_mode):
            destination.copy(source / path, path)
    for folder, _, names in os.walk(copy):
        Path(folder).chmod(0o755)
        for name in names:
            file = Path(folder, name)
            if not file.is_symlink():
                file.chmod(0o755 if file.stat().st_mode & 0o100 else 0o644)
