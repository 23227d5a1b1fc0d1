"""A sanitised, bounded copy of a tree that an agent wrote, with a manifest."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..redaction import SecretFinder, redact, redact_bytes
from .ignoring import matcher
from .opening import let_owner_in, open_entry
from .removal import remove_tree

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much is copied: bytes of one file and of all, entries looked at, levels of directories."""

    file_bytes: int = 100 << 20
    total_bytes: int = 1 << 30
    entries: int = 200_000
    depth: int = 100


@dataclasses.dataclass(frozen=True)
class File:
    """A copied file. `path` is relative; undecodable bytes are surrogate escapes. `mode` is what it was.

    `redacted` tells that secrets were left out of the copy; size and digest are those of what was copied.
    """

    path: str
    size: int
    mode: int
    sha256: str
    redacted: bool = False


@dataclasses.dataclass(frozen=True)
class Skipped:
    """An entry that was not copied, and why."""

    path: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a snapshot holds. `skipped` names at most 1000 entries; `truncated` says that a limit ended the copy."""

    files: tuple[File, ...] = ()
    links: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    truncated: bool = False


def snapshot(
    source: Path, target: Path, limits: Limits = Limits(), ignore: Sequence[str] = (), *, keep_secrets: bool = True
) -> Manifest:
    """Copy `source` to `target`, which is made. Nothing outside `source` is read, whatever lies in it.

    Kept: regular files (their x bits, no others), directories, and links that lead to something copied. Fifos, sockets,
    devices, other links and what is above a limit are skipped; components matching `ignore` too. Folders that their
    owner may not enter are opened to him first. A `source` that is no directory gives an empty copy, with `.` skipped.
    Unless `keep_secrets`, secrets are left out of the copied files, and what has one in its name is skipped.
    Raises OSError when `target` cannot be written; what was copied is removed then.
    """
    copy = _Copy(limits, ignore, keep_secrets)
    target.mkdir(parents=True, exist_ok=True)
    try:
        copy.tree(source, target)
        copy.links(target)
    except BaseException:
        remove_tree(target)
        raise
    return Manifest(tuple(copy.files), tuple(copy.kept_links), tuple(copy.skipped), copy.truncated)


class _Copy:
    """Works with directory descriptors only, so nothing that is swapped meanwhile can lead it out of the tree."""

    def __init__(self, limits: Limits, ignore: Sequence[str], keep_secrets: bool) -> None:
        self._limits = limits
        self._keep_secrets = keep_secrets
        self._ignored = matcher(ignore)
        self._left_entries = limits.entries
        self._left_bytes = limits.total_bytes
        self._links: list[tuple[str, str]] = []
        self._present = {"."}
        self.files: list[File] = []
        self.kept_links: list[str] = []
        self.skipped: list[Skipped] = []
        self.truncated = False

    def tree(self, source: Path, target: Path) -> None:
        """Copy files and directories; open descriptors grow with the depth, never with the width."""
        try:
            reading = _open_top(source)
        except OSError as error:
            self._skip(".", _why_no_folder(source, error))
            return
        top = (reading, os.open(target, _FOLDER), "")
        levels = [(*top, iter(self._level(*top)))]
        try:
            while levels:
                reading, writing, path, names = levels[-1]
                name = next(names, None)
                if name is None:
                    os.close(reading)
                    os.close(writing)
                    levels.pop()
                elif (level := self._enter(reading, writing, path, name, len(levels))) is not None:
                    levels.append((*level, iter(self._level(*level))))
        finally:
            for reading, writing, *_ in levels:
                os.close(reading)
                os.close(writing)

    def _enter(self, reading: int, writing: int, path: str, name: str, depth: int) -> tuple[int, int, str] | None:
        below = posixpath.join(path, name)
        if depth > self._limits.depth:
            self._skip(below, f"more than {self._limits.depth} levels deep")
            return None
        try:
            let_owner_in(reading, name)
            source = open_entry(reading, name, _FOLDER)
        except OSError as error:
            self._skip(below, _reason(error))
            return None
        try:
            os.mkdir(name, 0o755, dir_fd=writing)
            target = os.open(name, _FOLDER, dir_fd=writing)
        except BaseException:
            os.close(source)
            raise
        self._present.add(below)
        return source, target, below

    def _level(self, reading: int, writing: int, path: str) -> list[str]:
        """Copy the files of one directory; the names of its directories."""
        folders = []
        for entry in self._scan(reading, path):
            below = posixpath.join(path, entry.name)
            if self._ignored(entry.name):
                self._skip(below, "ignored")
                continue
            if not self._keep_secrets and redact(entry.name) != entry.name:
                self._skip(below, "a secret in its name")
                continue
            try:
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    self._links.append((below, os.readlink(entry.name, dir_fd=reading)))
                    continue
            except OSError as error:
                self._skip(below, "gone" if isinstance(error, FileNotFoundError) else _reason(error))
                continue
            if stat.S_ISDIR(found.st_mode):
                folders.append(entry.name)
            elif stat.S_ISREG(found.st_mode):
                self._file(reading, writing, entry.name, below, found)
            else:
                self._skip(below, _KINDS.get(stat.S_IFMT(found.st_mode), "not a file"))
        return sorted(folders)

    def _scan(self, reading: int, path: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(reading) as found:
                for entry in found:
                    self._left_entries -= 1
                    if self._left_entries < 0:
                        self.truncated = True
                        return
                    yield entry
        except PermissionError as error:
            self._skip(path, _reason(error))

    def _file(self, reading: int, writing: int, name: str, path: str, found: os.stat_result) -> None:
        if (reason := self._over_a_limit(found.st_size)) is not None:
            self._skip(path, reason)
            return
        try:
            source = open_entry(reading, name, os.O_RDONLY | os.O_NONBLOCK)
        except OSError as error:
            self._skip(path, _reason(error))
            return
        try:
            found = os.fstat(source)
            if stat.S_ISREG(found.st_mode):
                self._copy(source, writing, name, path, found)
            else:
                self._skip(path, "changed meanwhile")
        finally:
            os.close(source)

    def _over_a_limit(self, size: int) -> str | None:
        if size > self._limits.file_bytes:
            return f"larger than {self._limits.file_bytes} bytes"
        if size > self._left_bytes:
            self.truncated = True
            return f"more than {self._limits.total_bytes} bytes in all"
        return None

    def _copy(self, source: int, writing: int, name: str, path: str, found: os.stat_result) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(name, flags, 0o644, dir_fd=writing)
        try:
            finder = None if self._keep_secrets else SecretFinder()
            size, sha256 = _copy_bytes(source, target, self._limits.file_bytes, finder)
            redacted = finder is not None and finder.found
            if redacted:
                _leave_out_secrets(target)
            if found.st_mode & 0o111:
                os.fchmod(target, 0o755)
            os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(target)
        self._left_bytes -= size
        self._present.add(path)
        self.files.append(File(path, size, stat.S_IMODE(found.st_mode), sha256, redacted))

    def links(self, target: Path) -> None:
        """Make the links whose text, taken literally, leads to something that was copied and is no link itself."""
        top = os.open(target, _FOLDER)
        try:
            for path, text in self._links:
                leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
                if leads_to in self._present and not text.startswith("/"):
                    os.symlink(text, path, dir_fd=top)
                    self.kept_links.append(path)
                else:
                    self._skip(path, f"link to {text}")
        finally:
            os.close(top)

    def _skip(self, path: str, reason: str) -> None:
        if len(self.skipped) < 1000:
            self.skipped.append(Skipped(path, reason))


def _open_top(source: Path) -> int:
    parent = os.open(source.parent, _FOLDER)
    try:
        let_owner_in(parent, source.name)
        return os.open(source.name, _FOLDER, dir_fd=parent)
    finally:
        os.close(parent)


def _why_no_folder(source: Path, error: OSError) -> str:
    if source.is_symlink():
        return "replaced by a link"
    if isinstance(error, FileNotFoundError):
        return "removed"
    return "replaced by what is no directory" if isinstance(error, NotADirectoryError) else _reason(error)


def _reason(error: OSError) -> str:
    return "a mount" if error.errno == errno.EXDEV else error.strerror or "unreadable"


def _copy_bytes(source: int, target: int, limit: int, finder: SecretFinder | None) -> tuple[int, str]:
    """Copy at most `limit` bytes, shown to `finder`; their number and SHA-256."""
    total = hashlib.sha256()
    size = 0
    while chunk := os.read(source, min(_CHUNK, limit - size)):
        total.update(chunk)
        size += len(chunk)
        if finder is not None:
            finder.feed(chunk)
        _write(target, chunk)
    return size, total.hexdigest()


def _leave_out_secrets(file: int) -> None:
    """Write the file anew, as large as one may be that is copied."""
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as whole:
        data = redact_bytes(whole.read())
    os.lseek(file, 0, os.SEEK_SET)
    os.ftruncate(file, 0)
    _write(file, data)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
