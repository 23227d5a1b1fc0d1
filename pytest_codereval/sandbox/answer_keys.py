"""What would tell an agent how it is judged: task files, references, datasets."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .host_path import host_path

if TYPE_CHECKING:
    from ..task.models import Task

_TASK_LINE = re.compile(rb"^success_criteria[ \t]*:", re.MULTILINE)
_TASK_SUFFIXES = (".yaml", ".yml")
_LARGEST_TASK = 10_000_000


def named_answer_keys(task: Task, task_dir: Path) -> list[Path]:
    """The reference and the dataset of a task. Raises TrialError(CONFIGURATION)."""
    named: list[tuple[str, str]] = []
    if task.reference is not None:
        named += [("reference", path) for path in (task.reference.directory, task.reference.file) if path]
    if task.dataset is not None:
        named += [("dataset.paths", path) for path in task.dataset.paths or ()]
    return [host_path(path, task_dir, key) for key, path in named]


class KeyFiles:
    """The files of answer keys by device and inode, so that a hard link to one is known whatever its path."""

    def __init__(self, named: Iterable[Path], further: Iterable[Path] = ()) -> None:
        """`named` are files, and folders with all that is in them; of `further` only files count."""
        self._named = tuple(named)
        self._further = tuple(further)
        self._files: frozenset[tuple[int, int]] | None = None

    def has(self, path: str) -> bool:
        """Whether the file at `path`, or where it links to, is one of them."""
        if (identity := _identity(path)) is None:
            return False
        if self._files is None:
            paths = (*self._further, *(file for place in self._named for file in _files(place)))
            self._files = frozenset(filter(None, map(_identity, paths)))
        return identity in self._files


def _files(place: Path) -> Iterator[Path]:
    yield place
    for folder, _, names in os.walk(place):
        yield from (Path(folder, name) for name in names)


def _identity(path: str | Path) -> tuple[int, int] | None:
    """Device and inode of a regular file, None for anything else."""
    try:
        found = os.stat(path)  # noqa: PTH116 - takes both kinds of paths
    except (OSError, ValueError):
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def is_task_file(path: str) -> bool:
    """Whether a file says how an agent is judged."""
    if not path.lower().endswith(_TASK_SUFFIXES) or not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return _TASK_LINE.search(file.read(_LARGEST_TASK)) is not None
