"""What a reply does in the workspace: files that it writes or copies there, never outside."""

from __future__ import annotations

import dataclasses
import os
import posixpath
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import CoderEvalError

MAX_FILES = 2_000
"""Files that one effect may copy."""

MAX_BYTES = 50_000_000
"""Bytes that one effect may copy."""

WriteFile = Callable[[str, bytes, bool], None]
"""Takes a path relative to the workspace, the content, and whether the file can be run. Raises OSError."""


class EffectRefused(Exception):
    """An effect that cannot be done in the workspace as the agent left it, or where the agent asked for it."""


class SourceProblem(CoderEvalError):
    """What is to be copied cannot be."""


@dataclasses.dataclass(frozen=True)
class Tree:
    """What is copied: the path of each file below the destination ("" for a file alone), content, and if it can be run."""

    files: tuple[tuple[str, bytes, bool], ...]


def read_tree(source: Path) -> Tree:
    """Read a file, or all files below a folder, by name. Raises SourceProblem, also for a link or too much."""
    try:
        mode = source.stat().st_mode
        if stat.S_ISREG(mode):
            return Tree((("", *_read(source, MAX_BYTES)),))
        if not stat.S_ISDIR(mode):
            raise SourceProblem(f"{source}: neither a file nor a folder")
        found: list[tuple[str, bytes, bool]] = []
        left = MAX_BYTES
        for path in _files_below(source):
            content, executable = _read(path, left)
            left -= len(content)
            found.append((path.relative_to(source).as_posix(), content, executable))
            if len(found) > MAX_FILES:
                raise SourceProblem(f"{source}: more than {MAX_FILES} files to copy")
    except OSError as error:
        raise SourceProblem(f"{error.filename or source}: {error.strerror or error}") from error
    return Tree(tuple(found))


def _files_below(folder: Path) -> Iterator[Path]:
    with os.scandir(folder) as entries:
        ordered = sorted(entries, key=lambda entry: entry.name)
    for entry in ordered:
        if entry.is_symlink():
            raise SourceProblem(f"{entry.path}: a link; links are not copied")
        if entry.is_dir():
            yield from _files_below(Path(entry.path))
        elif entry.is_file():
            yield Path(entry.path)
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
    directory: str = "."

    def write(self, path: str, content: bytes) -> None:
        """Write a file. Raises EffectRefused."""
        self._write(path, self._inside(path), content, False)

    def copy(self, tree: Tree, to: str) -> None:
        """Copy a file to `to`, or the files of a folder into it. Raises EffectRefused."""
        target = self._inside(to)
        for name, content, executable in tree.files:
            path = posixpath.normpath(posixpath.join(target, name)) if name else target
            self._write(to, path, content, executable)

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

    def _write(self, shown: str, path: str, content: bytes, executable: bool) -> None:
        try:
            self.write_file(path, content, executable)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise EffectRefused(f"{shown}: {reason}") from error
