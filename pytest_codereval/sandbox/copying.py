"""Writes files into a tree that already holds something; what is written later wins."""

from __future__ import annotations

import os
import posixpath
import stat
from pathlib import Path

from .removal import remove_tree

_CHUNK = 1 << 20


class Destination:
    """A directory to copy into. Paths are relative, with `/`. No link in it is ever followed."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders = {""}

    def folder(self, path: str, mode: int = 0o755) -> None:
        """Make a directory and those above it. `mode` is for a new one; its owner always gets all permissions."""
        if path in self._folders:
            return
        self.folder(posixpath.dirname(path))
        place = self._root / path
        try:
            place.mkdir()
        except FileExistsError:
            if not stat.S_ISDIR(place.lstat().st_mode):
                place.unlink()
                place.mkdir()
        place.chmod(stat.S_IMODE(mode) & 0o777 | 0o700)
        self._folders.add(path)

    def copy(self, source: Path, path: str) -> None:
        """Copy a regular file with its permissions and its time, without setuid, setgid and sticky bits."""
        reader = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(reader)
            writer = self._create(path)
            try:
                while chunk := os.read(reader, _CHUNK):
                    _write_all(writer, chunk)
                os.fchmod(writer, stat.S_IMODE(found.st_mode) & 0o777)
                os.utime(writer, ns=(found.st_atime_ns, found.st_mtime_ns))
            finally:
                os.close(writer)
        finally:
            os.close(reader)

    def write(self, path: str, content: bytes) -> None:
        """Write a file that everybody may read."""
        writer = self._create(path)
        try:
            _write_all(writer, content)
            os.fchmod(writer, 0o644)
        finally:
            os.close(writer)

    def link(self, path: str, target: str) -> None:
        """Make a symbolic link."""
        (self._clear(path)).symlink_to(target)

    def _create(self, path: str) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.folder(posixpath.dirname(path))
            return os.open(self._root / path, flags, 0o600)
        except FileExistsError:
            return os.open(self._clear(path), flags, 0o600)

    def _clear(self, path: str) -> Path:
        """Make room: what was there is removed, also a directory."""
        self.folder(posixpath.dirname(path))
        place = self._root / path
        if place.is_dir() and not place.is_symlink():
            self._folders = {known for known in self._folders if known != path and not known.startswith(f"{path}/")}
        remove_tree(place)
        return place


def _write_all(writer: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(writer, view) :]
