"""Puts into a fresh workspace what the task asks for, and never what would tell the agent the answer."""

from __future__ import annotations

import fnmatch
import os
import posixpath
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Cause, TrialError
from .answer_keys import KeyFiles, is_task_file, named_answer_keys
from .copying import Destination
from .host_path import host_path
from .ignoring import IgnoreRules
from .packages import NODE_PROGRAMS, install_node_packages, install_python_packages
from .repo_source import stage_repo
from .workspace import Workspace

if TYPE_CHECKING:
    from ..task.models import SandboxConfig, StarterFiles, Task, TemplateDir
    from .protocol import Sandbox

RECORDED_CALLS_DIR = "cli_mocks"
"""Where criteria find the recorded calls; nobody else may put it there."""

_TWINS = (".cmd", ".bat", ".exe")


def stage_workspace(
    sandbox: Sandbox,
    task: Task,
    task_dir: Path,
    *,
    generated_names: Collection[str] | None = None,
    answer_keys: Collection[Path] = (),
) -> tuple[str, ...]:
    """Fill the workspace: repository, templates and starter files in their order, mock directories, packages.

    `generated_names` are the files that the recorder makes, by default the recorded tools' names. `answer_keys` are
    files and directories that are never staged, beside the task's own folder, reference and dataset; nor is a hard
    link to one of these files. Returns the paths that were left out of templates for that reason. Raises
    TrialError(CONFIGURATION) for what cannot be staged.
    """
    config = task.sandbox
    keys = _AnswerKeys(task_dir, named_answer_keys(task, task_dir), answer_keys)
    destination = Destination(sandbox.workspace)
    rules = IgnoreRules(config.ignore_patterns)
    pruned: list[str] = []
    for index, source in enumerate(config.template_sources or ()):
        where = f"sandbox.template_sources[{index}]"
        known: Any = source
        try:
            if known.type == "repo":
                stage_repo(known, where, task_dir, sandbox.workspace, sandbox.root.parent / "repositories")
            elif known.type == "template_dir":
                template = _Template(known, where, task_dir, keys, rules, bool(config.record_cli))
                pruned += template.copy_to(destination)
            else:
                _write_starter_files(known, where, destination, bool(config.record_cli))
        except OSError as error:
            raise _mistake(where, f"cannot be staged: {error}") from error
    if config.node is not None and config.node.env_packages:
        install_node_packages(sandbox, config.node.env_packages)
    prepare_mock_dirs(sandbox, config, generated_names=generated_names)
    if config.python is not None and config.python.env_packages:
        install_python_packages(sandbox, config.python.env_packages, task_dir)
    return tuple(pruned)


def prepare_mock_dirs(
    sandbox: Sandbox, config: SandboxConfig, *, generated_names: Collection[str] | None = None
) -> None:
    """Make the files of the mock directories executable; put these, and npm's programs, on the agent's PATH.

    Raises TrialError(CONFIGURATION) when one is missing or holds a file named like a recorded tool.
    """
    if generated_names is None:
        generated_names = [entry.tool for entry in config.record_cli or ()]
    taken = {_stem(name): name for name in generated_names}
    folders: list[Path] = []
    for index, path in enumerate(config.mock_path_dirs or ()):
        where = f"sandbox.mock_path_dirs[{index}]"
        folder = Workspace(sandbox.workspace).resolve(path)
        if folder is None or not folder.is_dir():
            raise _mistake(where, f"there is no directory {path!r} in the workspace")
        for file in (entry for entry in sorted(folder.iterdir()) if entry.is_file()):
            if (tool := taken.get(_stem(file.name))) is not None:
                raise _mistake(where, f"{path}/{file.name} and the recorder's {tool!r} would shadow each other")
            file.chmod(stat.S_IMODE(file.stat().st_mode) | 0o111)
        folders.append(folder)
    if config.node is not None and config.node.env_packages:
        folders.append(sandbox.workspace / NODE_PROGRAMS)
    if folders:
        sandbox.agent_path_dirs = folders


def _stem(name: str) -> str:
    folded = name.casefold()
    for twin in _TWINS:
        folded = folded.removesuffix(twin)
    return folded


def _write_starter_files(source: StarterFiles, where: str, destination: Destination, recorded: bool) -> None:
    for file in source.files:
        path = posixpath.normpath(file.path)
        _refuse_recorded_calls(path, where, recorded)
        try:
            content = file.content.encode()
        except UnicodeEncodeError as error:
            raise _mistake(where, f"{file.path}: its content cannot be written as UTF-8") from error
        destination.write(path, content)


def _refuse_recorded_calls(path: str, where: str, recorded: bool) -> None:
    if recorded and path.split("/")[0].casefold() == RECORDED_CALLS_DIR:
        raise _mistake(where, f"{path}: {RECORDED_CALLS_DIR}/ belongs to the recorder when record_cli is used")


def _mistake(where: str, message: str) -> TrialError:
    return TrialError(Cause.CONFIGURATION, f"{where}: {message}")


class _AnswerKeys:
    """What would tell the agent how it is judged: the task's folder, what the task names, and more."""

    def __init__(self, task_dir: Path, named: Collection[Path], further: Collection[Path]) -> None:
        self._task_dir = os.path.realpath(task_dir)
        self._places = {os.path.realpath(place) for place in (task_dir, *named, *further)}
        self._files = KeyFiles(named, further)

    def reason_against(self, folder: str) -> str | None:
        """Why a template may not start at `folder`, a real path."""
        if folder == self._task_dir:
            return "it is the folder of the task itself, which holds what the agent must not see; name a folder in it"
        holders = self._places - {self._task_dir}
        if any(folder == place or folder.startswith(f"{place}/") for place in holders):
            return "it lies in the reference or is an answer key"
        return None

    def holds(self, path: str) -> bool:
        """Whether a real path is an answer key or a task file."""
        return path in self._places or self._files.has(path) or is_task_file(path)

    def above(self, path: str) -> bool:
        """Whether a real path is an answer key or lies inside one, but for the task's folder as a whole."""
        holders = self._places - {self._task_dir}
        inside = any(path == place or path.startswith(f"{place}/") for place in holders)
        return inside or self._files.has(path) or is_task_file(path)


class _Template:
    """One template directory, copied entry by entry."""

    def __init__(
        self, source: TemplateDir, where: str, task_dir: Path, keys: _AnswerKeys, rules: IgnoreRules, recorded: bool
    ) -> None:
        given = host_path(source.path, task_dir, where)
        self._where = where
        self._keys = keys
        self._rules = rules
        self._recorded = recorded
        self._include = source.include_patterns
        self._mount = posixpath.normpath(source.mount_point)
        self._root = os.path.realpath(given)
        if not Path(self._root).is_dir():
            raise _mistake(where, f"there is no directory {given}")
        if (reason := keys.reason_against(self._root)) is not None:
            raise _mistake(where, f"{source.path!r} cannot be staged: {reason}")
        self._pruned: list[str] = []

    def copy_to(self, destination: Destination) -> list[str]:
        """Copy everything that is neither ignored nor an answer key; the paths of the answer keys left out."""
        _refuse_recorded_calls(self._mount, self._where, self._recorded)
        if self._mount != ".":
            destination.folder(self._mount)
        for entry, path in self._wanted():
            target = posixpath.normpath(f"{self._mount}/{path}")
            if entry.is_symlink():
                self._copy_link(entry, path, target, destination)
            elif entry.is_dir():
                destination.folder(target, entry.stat().st_mode)
            elif entry.is_file():
                destination.copy(Path(entry.path), target)
            else:
                raise _mistake(self._where, f"{path} is neither a file nor a directory nor a link")
        return self._pruned

    def _wanted(self) -> Iterator[tuple[os.DirEntry[str], str]]:
        """Entries and their relative paths, each directory before what lies in it."""
        todo = [("", False, False)]
        while todo:
            folder, ignored, included = todo.pop()
            with os.scandir(f"{self._root}/{folder}".rstrip("/") or "/") as found:
                entries = sorted(found, key=lambda entry: entry.name)
            for entry in entries:
                path = f"{folder}/{entry.name}" if folder else entry.name
                _refuse_recorded_calls(posixpath.normpath(f"{self._mount}/{path}"), self._where, self._recorded)
                now_included = included or any(fnmatch.fnmatchcase(path, pattern) for pattern in self._include)
                now_ignored = not now_included and (ignored or self._rules.ignores(entry.name))
                if now_ignored and not (self._include and entry.is_dir(follow_symlinks=False)):
                    continue
                if self._keys.holds(entry.path):
                    self._pruned.append(path)
                    continue
                if not now_ignored:
                    yield entry, path
                if entry.is_dir(follow_symlinks=False):
                    todo.append((path, now_ignored, now_included))

    def _copy_link(self, entry: os.DirEntry[str], path: str, target: str, destination: Destination) -> None:
        text = str(Path(entry.path).readlink())
        real = os.path.realpath(entry.path)
        stays = real == self._root or real.startswith(f"{self._root}/")
        if text.startswith("/") or not stays:
            raise _mistake(self._where, f"the link {path} -> {text} leads out of the template directory")
        if self._keys.above(real):
            self._pruned.append(path)
        else:
            destination.link(target, text)
