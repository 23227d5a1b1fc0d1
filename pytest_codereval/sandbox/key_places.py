"""Which folders and files of the author's disk would tell the agent how it is judged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .answer_keys import KeyFiles, is_task_file


class KeyPlaces:
    """The folder of a task, what the task names, further answer keys; and the folders of other tasks.

    `named` and `further` are files, and folders with all that is in them. Links are resolved.
    """

    def __init__(self, task_dir: Path | None, named: Iterable[Path] = (), further: Iterable[Path] = ()) -> None:
        named, further = tuple(named), tuple(further)
        self._task_dir = os.path.realpath(task_dir) if task_dir is not None else None
        self._keys = frozenset(os.path.realpath(place) for place in (*named, *further)) - {self._task_dir}
        self._files = KeyFiles(named, further)
        self.identity = (self._task_dir, *sorted(self._keys))
        """Two of the same identity know the same places."""

    def hold(self, path: str) -> bool:
        """Whether a real path is an answer key, a task file, or lies in a key; the task's folder does not count."""
        inside = any(path == place or path.startswith(f"{place}/") for place in self._keys)
        return inside or self._files.has(path) or is_task_file(path)

    def drop(self, path: str) -> bool:
        """Whether an entry of a tree is left out when the tree is copied for an agent, with all that lies in it.

        That is what is an answer key, the folder of this or another task, and the history of a checkout.
        """
        place = Path(path)
        if place.name == ".git":
            return True
        real = os.path.realpath(path)
        if self.hold(real) or self.hold(path):
            return True
        return not place.is_symlink() and place.is_dir() and self.is_of_tasks(real)

    def is_of_tasks(self, folder: str) -> bool:
        """Whether a folder, by its real path, is this task's or has task files of its own."""
        if folder == self._task_dir:
            return True
        with os.scandir(folder) as entries:
            return any(is_task_file(entry.path) for entry in entries)
