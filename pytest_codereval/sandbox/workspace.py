"""The one resolver of paths in a sealed tree that an agent wrote: links, fifos and giant files do no harm."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import CoderEvalError
from .ignoring import IgnoreRules
from .opening import BENEATH, NO_LINKS, NO_MAGIC_LINKS, NO_MOUNTS, open_at

DEFAULT_READ_LIMIT = 10_000_000
"""Bytes of the largest file that is read."""

_MAGIC = re.compile(r"[*?\[]")
_MAX_ENTRIES = 500_000
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HARMLESS_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class Unreadable(CoderEvalError):
    """A file whose content cannot be had, by the fault of who wrote it; `reason` is one line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Workspace:
    """A directory tree seen from its root. Paths are relative to it, with `/`.

    A link counts as what it leads to while that lies inside; a link that leaves the tree, dangles or loops, a fifo, a
    device and a socket count as absent.
    """

    def __init__(self, root: Path, ignore_patterns: Sequence[str] = ()) -> None:
        given = root.absolute()
        self.root = Path(os.path.realpath(given.parent), given.name)
        self._rules = IgnoreRules(ignore_patterns)

    def resolve(self, path: str) -> Path | None:
        """The absolute real path of the regular file or directory that `path` names literally; None when absent."""
        try:
            descriptor = self._open(path, _O_PATH)
        except (OSError, ValueError):
            return None
        try:
            mode = os.fstat(descriptor).st_mode
        finally:
            os.close(descriptor)
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return None
        return Path(os.path.realpath(self.root / path))

    def exists(self, path: str) -> bool:
        """Whether `path` is there literally as file or directory or, as a pattern, matches a file."""
        return self.resolve(path) is not None or (_has_magic(path) and bool(self.glob(path)))

    def is_file(self, path: str) -> bool:
        """Whether `path` names a regular file literally."""
        found = self.resolve(path)
        return found is not None and found.is_file()

    def is_dir(self, path: str) -> bool:
        """Whether `path` names a directory literally."""
        found = self.resolve(path)
        return found is not None and found.is_dir()

    def glob(self, pattern: str) -> tuple[str, ...]:
        """The files that match, sorted. `*`, `?` and `[...]` stay within a component, `**` is any number of them.

        Names found by a wildcard are left out when the ignore rules say so; names that the pattern spells out are not.
        """
        segments = [segment for segment in pattern.split("/") if segment not in ("", ".")]
        if not segments or ".." in segments or pattern.startswith("/"):
            return ()
        walk = _Walk(self, self._rules)
        return tuple(sorted({name for name in walk.matches("", segments) if self.is_file(name)}))

    def resolve_one(self, path: str) -> str:
        """The one file or directory meant by `path`: what is there literally, else the one match of a pattern.

        Raises Unreadable when there is none or more than one.
        """
        if self.resolve(path) is not None:
            return path
        if not _has_magic(path):
            raise Unreadable(f"{path}: {self._why_absent(path)}")
        found = self.glob(path)
        if not found:
            raise Unreadable(f"{path}: matches no file")
        if len(found) > 1:
            more = f" and {len(found) - 10} more" if len(found) > 10 else ""
            raise Unreadable(f"{path}: matches {len(found)} files, one is needed: {', '.join(found[:10])}{more}")
        return found[0]

    def read_bytes(self, path: str, limit: int = DEFAULT_READ_LIMIT) -> bytes:
        """The content of the one regular file meant by `path`. Raises Unreadable, also above `limit` bytes."""
        name = self.resolve_one(path)
        try:
            descriptor = self._open(name, _HARMLESS_READ)
        except (OSError, ValueError) as error:
            raise Unreadable(f"{name}: {_reason(error)}") from error
        try:
            return _read(descriptor, name, limit)
        finally:
            os.close(descriptor)

    def read_text(self, path: str, limit: int = DEFAULT_READ_LIMIT) -> str:
        """The same as UTF-8 text, line ends as they are. Raises Unreadable, also when it is no UTF-8."""
        data = self.read_bytes(path, limit)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Unreadable(f"{path}: not UTF-8 text: {error.reason} at byte {error.start}") from error

    def entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """Names in a directory of the tree and whether each is a directory itself; links are not followed."""
        try:
            descriptor = self._open(folder or ".", _FOLDER & ~os.O_NOFOLLOW)
        except (OSError, ValueError):
            return
        try:
            with os.scandir(descriptor) as found:
                for entry in found:
                    yield entry.name, entry.is_dir(follow_symlinks=False)
        finally:
            os.close(descriptor)

    def _open(self, path: str, flags: int) -> int:
        """Open what `path` leads to, never outside. Raises OSError, and ValueError for a NUL byte."""
        if path.startswith("/"):
            raise OSError(errno.EXDEV, "not a relative path", path)
        if not path:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        top = os.open(self.root, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            try:
                return open_at(top, path, flags, BENEATH | NO_MAGIC_LINKS | NO_MOUNTS)
            except OSError as error:
                if error.errno not in (errno.EXDEV, errno.ELOOP, errno.ENOSYS, errno.EPERM):
                    raise
            return self._open_resolved(top, path, flags)
        finally:
            os.close(top)

    def _open_resolved(self, top: int, path: str, flags: int) -> int:
        """For links that are absolute but lead inside, and for systems without openat2: resolve, then follow none."""
        real = os.path.realpath(self.root / path)
        base = str(self.root)
        if real != base and not real.startswith(base + "/"):
            raise OSError(errno.EXDEV, "it leads out of the workspace", path)
        inside = os.path.relpath(real, base)
        try:
            return open_at(top, inside, flags, BENEATH | NO_LINKS | NO_MOUNTS)
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EPERM):
                raise
        return _open_without_links(top, inside, flags)

    def _why_absent(self, path: str) -> str:
        try:
            os.close(self._open(path, _O_PATH))
        except (OSError, ValueError) as error:
            return _reason(error)
        return "not a regular file"


class _Walk:
    """Matches the segments of a pattern, one directory after the other."""

    def __init__(self, workspace: Workspace, rules: IgnoreRules) -> None:
        self._workspace = workspace
        self._rules = rules
        self._left = _MAX_ENTRIES

    def matches(self, folder: str, segments: Sequence[str]) -> Iterator[str]:
        """Relative names below `folder` that match `segments`; not all of them are files."""
        todo = [(folder, 0)]
        seen = set(todo)
        while todo:
            where, index = todo.pop()
            segment = segments[index]
            last = index == len(segments) - 1
            for name, next_index in self._step(where, segment, index, last):
                if next_index == len(segments):
                    yield name
                elif (name, next_index) not in seen:
                    seen.add((name, next_index))
                    todo.append((name, next_index))

    def _step(self, where: str, segment: str, index: int, last: bool) -> Iterator[tuple[str, int]]:
        if segment == "**":
            if not last:
                yield where, index + 1
            for name, is_folder in self._discovered(where):
                if is_folder:
                    yield name, index
                elif last:
                    yield name, index + 1
        elif _has_magic(segment):
            for name, _ in self._discovered(where):
                if fnmatch.fnmatchcase(name.rpartition("/")[2], segment):
                    yield name, index + 1
        else:
            yield _join(where, segment), index + 1

    def _discovered(self, where: str) -> Iterator[tuple[str, bool]]:
        for name, is_folder in self._workspace.entries(where):
            self._left -= 1
            if self._left < 0:
                raise Unreadable(f"more than {_MAX_ENTRIES} entries to search")
            if not self._rules.ignores(name):
                yield _join(where, name), is_folder


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _has_magic(path: str) -> bool:
    return bool(_MAGIC.search(path))


def _read(descriptor: int, name: str, limit: int) -> bytes:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise Unreadable(f"{name}: {'a directory' if stat.S_ISDIR(found.st_mode) else 'not a regular file'}")
    content = bytearray()
    while found.st_size <= limit and len(content) <= limit:
        chunk = os.read(descriptor, 1 << 20)
        if not chunk:
            return bytes(content)
        content += chunk
    raise Unreadable(f"{name}: larger than {limit} bytes")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return "not a path"
    reasons = {
        errno.ENOENT: "missing",
        errno.ENOTDIR: "missing",
        errno.EXDEV: "leaves the workspace",
        errno.ELOOP: "a loop of links",
        errno.ENXIO: "not a regular file",
    }
    return reasons.get(error.errno or 0, error.strerror or str(error))


def _open_without_links(top: int, path: str, flags: int) -> int:
    """Open component by component; any link on the way is an error."""
    current = os.dup(top)
    try:
        *folders, last = path.split("/")
        for name in folders:
            below = os.open(name, _FOLDER, dir_fd=current)
            os.close(current)
            current = below
        return os.open(last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=current)
    finally:
        os.close(current)
