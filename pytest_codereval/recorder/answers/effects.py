"""What a reply does in the workspace: files that it writes or copies there, never outside."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ...errors import CoderEvalError

MAX_FILES = 2_000
"""Files and empty folders that one effect may copy."""

MAX_BYTES = 50_000_000
"""Bytes that one effect may copy."""

WriteFile = Callable[[str, bytes, bool], None]
"""Takes a path relative to the workspace, the content, and whether the file can be run. Raises OSError."""

MakeFolder = Callable[[str], None]
"""Takes a path relative to the workspace. Raises OSError."""


class EffectRefused(Exception):
    """An effect that cannot be done in the workspace as the agent left it, or where the agent asked for it."""


class SourceProblem(CoderEvalError):
    """What is to be copied cannot be."""


@dataclasses.dataclass(frozen=True)
class Tree:
    """What is copied: the path of each file below the destination ("" for a file alone), content, and if it can be run.

    `empty_folders` are the paths of the folders that hold nothing, "" for the whole.
    """

    files: tuple[tuple[str, bytes, bool], ...] = ()
    empty_folders: tuple[str, ...] = ()


def read_tree(source: Path) -> Tree:
    """Read a file, or all that is below a folder, by name. Raises SourceProblem, also for a link or too much."""
    try:
        mode = source.stat().st_mode
        if stat.S_ISREG(mode):
            return Tree((("", *_read(source, MAX_BYTES)),))
        if not stat.S_ISDIR(mode):
            raise SourceProblem(f"{source}: neither a file nor a folder")
        files: list[tuple[str, bytes, bool]] = []
        empty: list[str] = []
        left = MAX_BYTES
        for path, is_file in _leaves(source):
            name = "" if path == source else path.relative_to(source).as_posix()
            if is_file:
                content, executable = _read(path, left)
                left -= len(content)
                files.append((name, content, executable))
            else:
                empty.append(name)
            if len(files) + len(empty) > MAX_FILES:
                raise SourceProblem(f"{source}: more than {MAX_FILES} files to copy")
    except OSError as error:
        raise SourceProblem(f"{error.filename or source}: {error.strerror or error}") from error
    return Tree(tuple(files), tuple(empty))


def _leaves(folder: Path) -> Iterator[tuple[Path, bool]]:
    """The files and the empty folders of a tree, `folder` itself if it is empty; with True those that are files."""
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    if not ordered:
        yield folder, False
    for entry in ordered:
        if entry.is_symlink():
            raise SourceProblem(f"{entry.path}: a link; links are not copied")
        if entry.is_dir():
            yield from _leaves(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path), True
        else:
            raise SourceProblem(f"{entry.path}: neither a file nor a folder")


def _read(path: Path, limit: int) -> tuple[bytes, bool]:
    with path.open("rb") as file:
        content = file.read(limit + 1)
        executable = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
    if len(content) > limit:
        raise SourceProblem(f"{path}: more than {MAX_BYTES} bytes to copy")
    return content, executable


@dataclasses.dataclass(frozen=True)
class Place:
    """Where effects are done: the workspace, and the directory in it that relative paths count from."""

    workspace: Path
    write_file: WriteFile
    make_folder: MakeFolder
    directory: str = "."

    def write(self, path: str, content: bytes) -> None:
        """Write a file. Raises EffectRefused."""
        target = self._inside(path)
        with _told(path):
            self.write_file(target, content, False)

    def copy(self, tree: Tree, to: str) -> None:
        """Copy a file to `to`, or what a folder holds into it. Raises EffectRefused."""
        target = self._inside(to)
        with _told(to):
            for name, content, executable in tree.files:
                self.write_file(_below(target, name), content, executable)
            for name in tree.empty_folders:
                self.make_folder(_below(target, name))

    def _inside(self, path: str) -> str:
        """The path relative to the workspace. Links play no part: where they lead is seen when it is written."""
        if not path:
            raise EffectRefused("an empty path")
        root = str(self.workspace)
        whole = posixpath.join(root, self.directory, path)
        for normal in (posixpath.normpath(whole), os.path.realpath(path) if path.startswith("/") else ""):
            if normal == root or normal.startswith(f"{root}/"):
                return posixpath.relpath(normal, root)
        raise EffectRefused(f"{path}: outside of the workspace")


def _below(target: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(target, name)) if name else target


@contextlib.contextmanager
def _told(shown: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise EffectRefused(f"{shown}: {reason}") from error
