"""Writing into a tree in which an agent is at work: no link, however it is swapped, leads the harness out of it."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterator
from pathlib import Path

from .enclosure import Owner
from .opening import BENEATH, NO_MAGIC_LINKS, NO_MOUNTS, open_at

_NO_WAY_OUT = BENEATH | NO_MAGIC_LINKS | NO_MOUNTS


def write_beneath(
    root: Path, path: str, content: bytes, executable: bool = False, *, owner: Owner | None = None
) -> None:
    """Write a regular file at `path` below `root`, making the folders above it and replacing its content.

    An `executable` file can be run by whoever can read it. File and new folders are given to `owner`.

    Raises OSError for a path that leaves `root`, for what is no regular file, and where it cannot be written.
    """
    with _opened(root, path) as (folder, name):
        _make_folders(folder, posixpath.dirname(name), owner)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY
        with open(_open(folder, name, flags, 0o644), "wb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            file.truncate()
            file.write(content)
            if owner is not None:
                os.fchown(file.fileno(), owner.uid, owner.gid)
            if executable:
                os.fchmod(file.fileno(), stat.S_IMODE(mode) | (stat.S_IMODE(mode) & 0o444) >> 2)


def make_folder_beneath(root: Path, path: str, *, owner: Owner | None = None) -> None:
    """Make a folder at `path` below `root`, and those above it; one that is there already stays as it is.

    Raises OSError for a path that leaves `root`, for what is no folder, and where it cannot be made.
    """
    with _opened(root, path) as (folder, name):
        _make_folders(folder, name, owner)


@contextlib.contextmanager
def _opened(root: Path, path: str) -> Iterator[tuple[int, str]]:
    """An open handle of `root`, and the path in its shortest form. Raises OSError for a path that leaves `root`."""
    if path.startswith("/") or ".." in path.split("/"):
        raise OSError(errno.EXDEV, "the path leaves the workspace", path)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder, posixpath.normpath(path)
    except ValueError as error:
        raise OSError(errno.EINVAL, "not a path", path) from error
    finally:
        os.close(folder)


def _make_folders(root: int, path: str, owner: Owner | None) -> None:
    if not path:
        return
    try:
        os.close(_open(root, path, os.O_RDONLY | os.O_DIRECTORY))
    except FileNotFoundError:
        _make_folders(root, posixpath.dirname(path), owner)
        parent = _open(root, posixpath.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.mkdir(posixpath.basename(path), dir_fd=parent)
            if owner is not None:
                os.chown(posixpath.basename(path), owner.uid, owner.gid, dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)


def _open(root: int, path: str, flags: int, mode: int = 0) -> int:
    try:
        return open_at(root, path, flags, _NO_WAY_OUT, mode)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return _open_without_links(root, path, flags, mode)


def _open_without_links(root: int, path: str, flags: int, mode: int) -> int:
    """For systems without openat2: one part after the other, no link at all."""
    folder = os.dup(root)
    *above, name = path.split("/")
    try:
        for part in above:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=folder)
    finally:
        os.close(folder)
