"""What would tell an agent how it is judged: task files, references, datasets."""

from __future__ import annotations

import re
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


def is_task_file(path: str) -> bool:
    """Whether a file says how an agent is judged."""
    if not path.lower().endswith(_TASK_SUFFIXES) or not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return _TASK_LINE.search(file.read(_LARGEST_TASK)) is not None
