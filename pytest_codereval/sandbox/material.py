"""Reference, graders and dataset: hashed when staged, absent while the agent lives, verified before they are shown."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from .digest import Digest, difference, digest
from .host_path import host_path
from .workspace import Workspace

if TYPE_CHECKING:
    from ..task.models import Task

CODE_FILE = "reference.txt"
"""Name of the file that holds a reference given as text, unless a criterion asks for it by a name of its own."""

TASK_FOLDER = "task folder"
"""Name of the digest of the task's folder, which is there when commands name it."""

_SHELL_SAFE = re.compile(r"[A-Za-z0-9_./+@%=:,-]+")
_VARIABLE_PATH = re.compile(r"\$\{?(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}?(?P<rest>(?:/[A-Za-z0-9_.+-]+)+)")


class GradingMaterial:
    """The grading material of one trial.

    `keep_out` are places that the harness itself writes to, such as the run directory and cassettes, each with its lock
    and temporary file (`.NAME.lock`, `.NAME.*.tmp`). `hide` comes before the agent, `reveal` after the seal, then
    `verify` as often as what is shown is about to be used. `digests` holds the SHA-256 of each part by name.
    """

    def __init__(
        self,
        task: Task,
        task_file: Path,
        root: Path,
        dataset_paths: Sequence[str] = (),
        keep_out: Collection[Path] = (),
        variables: Mapping[str, str] = MappingProxyType({}),
        show: Callable[[Path], None] = lambda path: None,
    ) -> None:
        """`root` is the trial's own directory, outside the workspace; `variables` are those that graders get.

        `show` is told the paths that preparation and graders need to see, beside the task's folder and the checkout.

        Raises TrialError(CONFIGURATION) when the reference or a part of it that a criterion names is not there.
        """
        self._task = task
        self._task_dir = task_file.parent.absolute()
        self._root = root
        self._keep_out = [*keep_out, root]
        names = "|".join(re.escape(Path(os.path.realpath(place)).name) for place in keep_out)
        self._passing = re.compile(rf"(?:.*/)?\.(?:{names})\.(?:lock|\w+\.tmp)", re.DOTALL)
        self._variables = variables
        self._show = show
        self.dataset_files = [host_path(path, self._task_dir, "dataset.paths") for path in dataset_paths]
        self._reference = _reference_source(task, self._task_dir)
        self._check_compared_files()
        self._before: dict[str, Digest] = {}
        self._link: Path | None = None
        self._shown: Path | None = None
        self._shown_digest: Digest | None = None

    def _check_compared_files(self) -> None:
        for index, criterion in enumerate(self._task.success_criteria):
            name = getattr(criterion, "reference_file", None)
            if name is None or self._reference is None:
                continue
            path = self._reference / name if self._reference.is_dir() else self._reference
            if not path.is_file() or not path.stat().st_size or path.name != Path(name).name:
                where = f"success_criteria[{index}].reference_file"
                raise TrialError(Cause.CONFIGURATION, f"{where}: the reference has no file {name!r} with content")

    @property
    def digests(self) -> dict[str, str]:
        return {name: each.sha256 for name, each in self._before.items()}

    def _hash(self) -> Iterator[tuple[str, Digest]]:
        if self._reference is not None:
            yield "reference", digest(self._reference)
        if self._uses_task_folder():
            yield TASK_FOLDER, self._digest_without_own(self._task_dir)
        for path in self.dataset_files:
            yield f"dataset {path.name}", digest(path)
        for name, path in self._named_by_variables().items():
            yield name, self._digest_without_own(path)

    def _digest_without_own(self, path: Path) -> Digest:
        """The digest of what the harness does not write, be it here or in a trial that runs meanwhile."""
        found = digest(path, exclude=self._keep_out)
        entries = {name: value for name, value in found.entries.items() if not self._passing.fullmatch(name)}
        if len(entries) == len(found.entries):
            return found
        parts = (os.fsencode(name) + b"\0" + value.encode() + b"\0" for name, value in entries.items())
        return Digest(hashlib.sha256(b"".join(parts)).hexdigest(), entries)

    def _commands(self) -> list[str]:
        named = [getattr(criterion, "command", None) for criterion in self._task.success_criteria]
        return [*(text for text in named if isinstance(text, str)), *(hook.command for hook in self._task.post_run)]

    def _uses_task_folder(self) -> bool:
        files = [name for criterion in self._task.success_criteria for name in getattr(criterion, "files", None) or ()]
        return any("TASK_DIR" in text for text in [*self._commands(), *files])

    def _named_by_variables(self) -> dict[str, Path]:
        """The graders outside the task's folder that commands name by a variable, as in `$CHECKOUT/tests/check.py`."""
        found = {}
        for text in self._commands():
            for match in _VARIABLE_PATH.finditer(text):
                value = self._variables.get(match["name"], "")
                path = Path(value + match["rest"])
                if value.startswith("/") and not path.is_relative_to(self._root) and path.exists():
                    found[match.group()] = path
        return found

    def _may_show(self, folder: Path) -> bool:
        """Whether a grader may have its whole folder in sight: not where all of the operator's files lie."""
        private = [self._root, Path(os.environ.get("HOME") or "/root"), *self._keep_out]
        return not any(place.is_relative_to(folder) for place in private)

    def task_environment(self) -> dict[str, str]:
        """What preparation and hooks are told: where the task's folder is, by a path without spaces."""
        folder = str(self._task_dir)
        if not _SHELL_SAFE.fullmatch(folder):
            if self._link is None:
                self._link = self._root / f"task-{secrets.token_hex(8)}"
                self._link.symlink_to(folder)
                self._show(self._link)
            folder = str(self._link)
        return {"TASK_DIR": folder}

    def hide(self) -> None:
        """Take away what preparation could see and hash everything, before the agent starts."""
        if self._link is not None:
            self._link.unlink()
            self._link = None
        self._before = dict(self._hash())

    def reveal(self) -> dict[str, str]:
        """Verify everything, stage the reference under a fresh name, and return what graders are told.

        Raises TrialError(TAMPERED) naming what changed since the agent started.
        """
        self.verify()
        environment = self.task_environment()
        for path in self._named_by_variables().values():
            self._show(path.parent if path.is_file() and self._may_show(path.parent) else path)
        if self._task.reference is not None:
            self._shown = self._root / f"reference-{secrets.token_hex(8)}"
            self._stage_reference(self._shown)
            self._shown_digest = digest(self._shown)
            self._show(self._shown)
            environment["REFERENCE_DIR"] = str(self._shown)
        return environment

    def verify(self) -> None:
        """See that nothing changed: neither the originals since the agent started nor what was revealed.

        Raises TrialError(TAMPERED).
        """
        for name, after in self._hash():
            _refuse_changes(name, self._before[name], after)
        if self._shown is not None and self._shown_digest is not None:
            _refuse_changes("staged reference", self._shown_digest, digest(self._shown))

    def _stage_reference(self, target: Path) -> None:
        target.mkdir()
        if self._reference is None:
            code = self._task.reference.code if self._task.reference else None
            path = target / self._code_name()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(code or "", encoding="utf-8")
        elif self._reference.is_dir():
            shutil.copytree(
                self._reference,
                target,
                dirs_exist_ok=True,
                ignore=shutil.ignore_patterns(".git"),
                ignore_dangling_symlinks=True,
            )
        else:
            shutil.copy(self._reference, target)
        _let_read(target)

    def _code_name(self) -> str:
        names = [getattr(criterion, "reference_file", None) for criterion in self._task.success_criteria]
        return next((name for name in names if name), CODE_FILE)

    def reference_workspace(self) -> Workspace | None:
        """The staged reference as something to read from, None when the task has none or it is not revealed."""
        return Workspace(self._shown) if self._shown is not None else None


def _let_read(folder: Path) -> None:
    """Let everybody read a tree of ours, and run its programs, who can reach it at all: graders may be another user."""
    for place, _, files in os.walk(folder):
        Path(place).chmod(0o755)
        for path in (Path(place, name) for name in files):
            mode = path.stat().st_mode & 0o777
            path.chmod(mode | (0o555 if mode & 0o100 else 0o444))


def _refuse_changes(name: str, before: Digest, after: Digest) -> None:
    changes = difference(before, after)
    if changes:
        shown = ", ".join(changes[:5]) + (f" and {len(changes) - 5} more" if len(changes) > 5 else "")
        raise TrialError(Cause.TAMPERED, f"the {name} changed after the agent had started: {shown}")


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
