"""Reference, graders and dataset: hashed when staged, absent while the agent lives, verified before they are shown."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from .digest import Digest, difference, digest
from .host_path import host_path
from .removal import remove_tree
from .workspace import Workspace

if TYPE_CHECKING:
    from ..task.models import Task

CODE_FILE = "reference.txt"
"""Name of the file that holds a reference given as text, unless a criterion asks for it by a name of its own."""

_SHELL_SAFE = re.compile(r"[A-Za-z0-9_./+@%=:,-]+")
_TASK_DIR = re.compile(r"\$(?:TASK_DIR\b|\{TASK_DIR[}:#%/-])|TASK_DIR['\"]")


class GradingMaterial:
    """The grading material of one trial. `digests` holds the SHA-256 of each part by name."""

    def __init__(self, task: Task, task_file: Path, root: Path, dataset_paths: Sequence[str] = ()) -> None:
        """Hash everything. `root` is the trial's own directory, outside the workspace; `dataset_paths` are the files of
        the dataset as the task names them.

        Raises TrialError(CONFIGURATION) when the reference is not there.
        """
        self._task = task
        self._task_dir = task_file.parent.absolute()
        self._root = root
        self.dataset_files = [host_path(path, self._task_dir, "dataset.paths") for path in dataset_paths]
        self._reference = _reference_source(task, self._task_dir)
        self._staged_reference = root / "reference"
        self._check_compared_files()
        self._before = dict(self._hash())
        self.digests = {name: each.sha256 for name, each in self._before.items()}

    def _check_compared_files(self) -> None:
        """See before the agent runs that every file to be compared with is there."""
        for index, criterion in enumerate(self._task.success_criteria):
            name = getattr(criterion, "reference_file", None)
            if name is None or self._reference is None:
                continue
            path = self._reference / name if self._reference.is_dir() else self._reference
            if not path.is_file() or not path.stat().st_size or path.name != Path(name).name:
                where = f"success_criteria[{index}].reference_file"
                raise TrialError(Cause.CONFIGURATION, f"{where}: the reference has no file {name!r} with content")

    def _hash(self) -> Iterator[tuple[str, Digest]]:
        if self._reference is not None:
            yield "reference", digest(self._reference)
        if self._uses_task_folder():
            yield "task folder", digest(self._task_dir)
        for path in self.dataset_files:
            yield f"dataset {path.name}", digest(path)

    def _uses_task_folder(self) -> bool:
        commands = [getattr(criterion, "command", None) for criterion in self._task.success_criteria]
        commands += [hook.command for hook in self._task.post_run]
        files = [name for criterion in self._task.success_criteria for name in getattr(criterion, "files", None) or ()]
        return any(isinstance(text, str) and _TASK_DIR.search(text) for text in [*commands, *files])

    def task_environment(self) -> dict[str, str]:
        """What preparation and hooks are told: where the task's folder is, by a path without spaces."""
        folder = str(self._task_dir)
        if not _SHELL_SAFE.fullmatch(folder):
            link = self._root / "task"
            if not link.is_symlink():
                link.symlink_to(folder)
            folder = str(link)
        return {"TASK_DIR": folder}

    def hide(self) -> None:
        """Take away what preparation could see, before the agent starts."""
        (self._root / "task").unlink(missing_ok=True)
        remove_tree(self._staged_reference)

    def reveal(self) -> dict[str, str]:
        """Verify everything, stage the reference, and return what the grading environment is told.

        Raises TrialError(TAMPERED) naming what changed since the trial was staged.
        """
        for name, after in self._hash():
            changes = difference(self._before[name], after)
            if changes:
                shown = ", ".join(changes[:5]) + (f" and {len(changes) - 5} more" if len(changes) > 5 else "")
                raise TrialError(Cause.TAMPERED, f"the {name} changed while the agent worked: {shown}")
        environment = self.task_environment()
        if self._task.reference is not None:
            self._stage_reference()
            environment["REFERENCE_DIR"] = str(self._staged_reference)
        return environment

    def _stage_reference(self) -> None:
        remove_tree(self._staged_reference)
        self._staged_reference.mkdir(0o700)
        if self._reference is None:
            code = self._task.reference.code if self._task.reference else None
            path = self._staged_reference / self._code_name()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code or "", encoding="utf-8")
        elif self._reference.is_dir():
            shutil.copytree(self._reference, self._staged_reference, dirs_exist_ok=True, ignore=_not_material)
        else:
            shutil.copy(self._reference, self._staged_reference)

    def _code_name(self) -> str:
        names = [getattr(criterion, "reference_file", None) for criterion in self._task.success_criteria]
        return next((name for name in names if name), CODE_FILE)

    def reference_workspace(self) -> Workspace | None:
        """The staged reference as something to read from, None when the task has none or it is not revealed."""
        return Workspace(self._staged_reference) if self._staged_reference.is_dir() else None


def _reference_source(task: Task, task_dir: Path) -> Path | None:
    reference = task.reference
    if reference is None or reference.code is not None:
        return None
    key, text = ("directory", reference.directory) if reference.directory else ("file", reference.file)
    assert text is not None
    path = host_path(text, task_dir, f"reference.{key}")
    there = path.is_dir() if key == "directory" else path.is_file()
    if not there:
        raise TrialError(Cause.CONFIGURATION, f"reference.{key}: there is no {key} {path}")
    return path


def _not_material(folder: str, names: list[str]) -> list[str]:
    """Links and version control do not belong to a reference."""
    return [name for name in names if name == ".git" or Path(folder, name).is_symlink()]
