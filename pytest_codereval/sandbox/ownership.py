"""Gives files of the harness to the user that a sandbox's processes run as."""

from __future__ import annotations

import os
from pathlib import Path

from .enclosure import Owner


def hand_over(folder: Path, owner: Owner) -> None:
    """Make `owner` the owner of a tree that no process works in now. Links are not followed. Raises OSError."""
    if not os.path.lexists(folder):
        return
    _give(folder, owner)
    todo = [folder] if folder.is_dir() and not folder.is_symlink() else []
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                _give(entry.path, owner)
                if entry.is_dir(follow_symlinks=False):
                    todo.append(Path(entry.path))


def _give(path: str | os.PathLike[str], owner: Owner) -> None:
    found = os.lstat(path)
    if (found.st_uid, found.st_gid) != (owner.uid, owner.gid):
        os.lchown(path, owner.uid, owner.gid)
