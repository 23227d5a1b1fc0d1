"""Removes directory trees, whatever an agent made of them."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from pathlib import Path

from .opening import let_owner_in

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(path: Path) -> tuple[str, ...]:
    """Remove `path` and all below it; what could not be removed, each with the reason. Never raises OSError.

    Links are removed, never followed. Any depth, any names, folders without permissions. Every folder is first moved:
    those below up to the top, so that neither recursion nor open descriptors grow with the depth; and as a mount
    cannot be moved, what is mounted in the tree is left alone and reported.
    """
    try:
        parent = os.open(path.parent, _FOLDER)
    except FileNotFoundError:
        return ()
    except OSError as error:
        return (f"{path}: {error.strerror}",)
    try:
        return _remove(parent, path)
    finally:
        os.close(parent)


def _remove(parent: int, path: Path) -> tuple[str, ...]:
    problems: dict[str, str] = {}
    try:
        if not stat.S_ISDIR(os.lstat(path.name, dir_fd=parent).st_mode):
            os.unlink(path.name, dir_fd=parent)
            return ()
        os.rename(path.name, f"{path.name}.", src_dir_fd=parent, dst_dir_fd=parent)
        os.rename(f"{path.name}.", path.name, src_dir_fd=parent, dst_dir_fd=parent)
        top = _open_folder(parent, path.name)
        try:
            _empty(top, problems)
        finally:
            os.close(top)
        if not problems:
            os.rmdir(path.name, dir_fd=parent)
    except FileNotFoundError:
        return ()
    except OSError as error:
        problems.setdefault("", error.strerror or str(error))
    return tuple(f"{path / name}: {reason}" for name, reason in problems.items())


def _empty(top: int, problems: dict[str, str]) -> None:
    """Remove what lies in `top`, pass by pass, until only what has a problem is left."""
    numbers = itertools.count()
    moved: dict[str, str] = {}
    while True:
        names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in _entries(top)]
        left = [(name, is_folder) for name, is_folder in names if moved.get(name, name) not in problems]
        if not left:
            return
        for name, is_folder in left:
            try:
                if not is_folder:
                    os.unlink(name, dir_fd=top)
                elif name in moved:
                    _empty_folder(top, name, moved, numbers)
                    os.rmdir(name, dir_fd=top)
                else:
                    _move_up(top, name, name, top, moved, numbers)
            except FileNotFoundError:
                continue
            except OSError as error:
                problems[moved.get(name, name)] = error.strerror or str(error)


def _empty_folder(top: int, name: str, moved: dict[str, str], numbers: itertools.count[int]) -> None:
    """Unlink the files of a folder and move its folders up to `top`. The first problem of an entry is raised."""
    folder = _open_folder(top, name)
    first: OSError | None = None
    try:
        for entry in _entries(folder):
            try:
                if entry.is_dir(follow_symlinks=False):
                    _move_up(folder, entry.name, f"{moved[name]}/{entry.name}", top, moved, numbers)
                else:
                    os.unlink(entry.name, dir_fd=folder)
            except FileNotFoundError:
                continue
            except OSError as error:
                first = first or error
    finally:
        os.close(folder)
    if first is not None:
        raise first


def _move_up(
    folder: int, name: str, original: str, top: int, moved: dict[str, str], numbers: itertools.count[int]
) -> None:
    """Move a folder to `top` and note in `moved` where it was; an empty one is removed at once."""
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=folder)
        return
    os.close(_open_folder(folder, name))
    while True:
        new = f"moved-{next(numbers)}"
        try:
            os.rename(name, new, src_dir_fd=folder, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            moved[new] = original[:200]
            return


def _entries(folder: int) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return list(found)


def _open_folder(parent: int, name: str) -> int:
    """Open a folder so that its entries can be removed: its owner gets all permissions first."""
    let_owner_in(parent, name)
    return os.open(name, _FOLDER, dir_fd=parent)
