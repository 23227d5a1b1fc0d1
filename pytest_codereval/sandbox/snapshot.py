"""A sanitised, bounded copy of a tree that an agent wrote, with a manifest."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..redaction import SecretFinder, redact, redact_bytes
from .file_content import copy_content, copy_seen, write_all
from .ignoring import matcher
from .links import WITHIN, Kind, LinkedTree, LinkRules
from .opening import let_owner_in, open_entry
from .removal import remove_tree

MOST_SKIPPED = 1000
"""Entries that a manifest names as skipped."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


@dataclasses.dataclass(frozen=True)
class Limits:
    """How much is copied: bytes of one file and of all, entries looked at, levels of directories.

    A file counts by its length, for all together by what it takes on the disk where that is less and can stay so.
    """

    file_bytes: int = 100 << 20
    total_bytes: int = 1 << 30
    entries: int = 200_000
    depth: int = 100

    @property
    def described(self) -> str:
        """The limits of all together, for messages."""
        return f"{self.entries} files and directories, {self.total_bytes >> 20} MiB"


@dataclasses.dataclass(frozen=True)
class File:
    """A copied file. `path` is relative; undecodable bytes are surrogate escapes. `mode` is what it was.

    `redacted` tells that secrets were left out of the copy; size and digest are those of what was copied. The digest
    of an exact copy is "".
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
    """What a snapshot holds. `skipped` names at most 1000 entries; `truncated` says that a limit ended the copy.

    `folders` are the permissions of directories where they are not 755, `rewritten` what links said of which the copy
    says something else.
    """

    files: tuple[File, ...] = ()
    links: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    truncated: bool = False
    folders: Mapping[str, int] = dataclasses.field(default_factory=dict)
    rewritten: Mapping[str, str] = dataclasses.field(default_factory=dict)


def snapshot(
    source: Path,
    target: Path,
    limits: Limits = Limits(),
    ignore: Sequence[str] = (),
    *,
    keep_secrets: bool = True,
    exact: bool = False,
    rules: LinkRules = WITHIN,
    known_as: Path | None = None,
) -> Manifest:
    """Copy `source` to `target`, which is made. Nothing outside `source` is read, whatever lies in it.

    Kept: regular files (their x bits, no others), directories, and links that lead to something copied, also through
    other links, or that the `rules` allow. Absolute ones name the tree by the path that it is `known_as`, by default
    `source`; where the copy lies elsewhere they become relative. Fifos, sockets, devices, other links and what is above
    a limit are skipped; components matching `ignore` too. Folders that their owner may not enter are opened to him
    first. A `source` that is no directory gives an empty copy, with `.` skipped.

    An `exact` copy keeps all permissions but setuid and the like, the times of directories, and holes in files; its
    owner can always read. Unless `keep_secrets`, secrets are left out of the copied files, and what has one in its name
    is skipped.
    Raises OSError when `target` cannot be written; what was copied is removed then.
    """
    copy = _Copy(limits, ignore, keep_secrets, exact)
    target.mkdir(parents=True, exist_ok=True)
    try:
        copy.tree(source, target)
        copy.links(target, rules, os.fspath(known_as or source))
        copy.finish_folders(target)
    except BaseException:
        remove_tree(target)
        raise
    return Manifest(
        tuple(copy.files),
        tuple(copy.kept_links),
        tuple(copy.skipped),
        copy.truncated,
        copy.unusual_folders,
        copy.rewritten,
    )


class _Copy:
    """Works with directory descriptors only, so nothing that is swapped meanwhile can lead it out of the tree."""

    def __init__(self, limits: Limits, ignore: Sequence[str], keep_secrets: bool, exact: bool) -> None:
        self._limits = limits
        self._keep_secrets = keep_secrets
        self._exact = exact
        self._ignored = matcher(ignore)
        self._left_entries = limits.entries
        self._left_bytes = limits.total_bytes
        self._links: dict[str, tuple[str, os.stat_result]] = {}
        self._folders: list[tuple[str, os.stat_result]] = []
        self._present = {"."}
        self.files: list[File] = []
        self.kept_links: list[str] = []
        self.rewritten: dict[str, str] = {}
        self.skipped: list[Skipped] = []
        self.truncated = False

    def tree(self, source: Path, target: Path) -> None:
        """Copy files and directories; open descriptors grow with the depth, never with the width."""
        try:
            reading = _open_top(source)
        except OSError as error:
            self._skip(".", _why_no_folder(source, error))
            return
        self._folders.append((".", os.fstat(reading)))
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
            found = os.lstat(name, dir_fd=reading)
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
        self._folders.append((below, found))
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
                    self._links[below] = (os.readlink(entry.name, dir_fd=reading), found)
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
        if (reason := self._over_a_limit(found)) is not None:
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

    def _cost(self, found: os.stat_result) -> int:
        return min(found.st_size, found.st_blocks * 512) if self._exact else found.st_size

    def _over_a_limit(self, found: os.stat_result) -> str | None:
        if found.st_size > self._limits.file_bytes:
            return f"larger than {self._limits.file_bytes} bytes"
        if self._cost(found) > self._left_bytes:
            self.truncated = True
            return f"more than {self._limits.total_bytes} bytes in all"
        return None

    def _copy(self, source: int, writing: int, name: str, path: str, found: os.stat_result) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        target = os.open(name, flags, 0o644, dir_fd=writing)
        try:
            if self._exact:
                file, cost = self._copy_exactly(source, target, path, found)
            else:
                file = self._copy_listed(source, target, path, found)
                cost = file.size
            os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        finally:
            os.close(target)
        self._left_bytes -= cost
        self._present.add(path)
        self.files.append(file)

    def _copy_exactly(self, source: int, target: int, path: str, found: os.stat_result) -> tuple[File, int]:
        copy_content(source, target, found.st_size, found.st_blocks * 512)
        os.fchmod(target, found.st_mode & 0o777 | stat.S_IRUSR)
        return File(path, found.st_size, stat.S_IMODE(found.st_mode), ""), self._cost(found)

    def _copy_listed(self, source: int, target: int, path: str, found: os.stat_result) -> File:
        total = hashlib.sha256()
        finder = None if self._keep_secrets else SecretFinder()
        seen = [total.update, *([finder.feed] if finder is not None else [])]
        size = copy_seen(source, target, self._limits.file_bytes, lambda piece: [see(piece) for see in seen])
        redacted = finder is not None and finder.found
        if redacted:
            _leave_out_secrets(target)
        if found.st_mode & 0o111:
            os.fchmod(target, 0o755)
        return File(path, size, stat.S_IMODE(found.st_mode), total.hexdigest(), redacted)

    def links(self, target: Path, rules: LinkRules, known_as: str) -> None:
        """Make the links that lead to something that was copied, and those that the rules allow."""
        texts = {path: text for path, (text, _) in self._links.items()}
        tree = LinkedTree(known_as, texts, self._present, rules.path_of)
        here = os.fspath(target) == known_as
        top = os.open(target, _FOLDER)
        try:
            for path, (text, found) in self._links.items():
                made = _link_text(tree, path, text, rules, here)
                if made is None:
                    self._skip(path, f"link to {text}")
                    continue
                try:
                    os.symlink(made, path, dir_fd=top)
                except OSError as error:
                    if error.errno != errno.ENAMETOOLONG:
                        raise
                    self._skip(path, "its path is too long")
                    continue
                self.kept_links.append(path)
                if made != text:
                    self.rewritten[path] = text
                if self._exact:
                    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=top, follow_symlinks=False)
        finally:
            os.close(top)

    @property
    def unusual_folders(self) -> dict[str, int]:
        """The permissions of directories where they are not 755."""
        modes = {path: stat.S_IMODE(found.st_mode) for path, found in self._folders}
        return {path: mode for path, mode in modes.items() if mode != 0o755}

    def finish_folders(self, target: Path) -> None:
        """Give directories their permissions and times, when nothing is made in them any more."""
        if not self._exact or not self._folders:
            return
        top = os.open(target, _FOLDER)
        try:
            for path, found in reversed(self._folders):
                with contextlib.suppress(OSError):
                    os.chmod(path, found.st_mode & 0o777 | stat.S_IRWXU, dir_fd=top)
                    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns), dir_fd=top)
        finally:
            os.close(top)

    def _skip(self, path: str, reason: str) -> None:
        if len(self.skipped) < MOST_SKIPPED:
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


def _link_text(tree: LinkedTree, path: str, text: str, rules: LinkRules, here: bool) -> str | None:
    """What the link at `path` says in the copy, which lies `here`, at the tree's own path, or not; None to skip it."""
    lead = tree.lead(path)
    if lead.kind is Kind.OUTSIDE:
        if not rules.outside(lead.path):
            return None
        return text if here or text.startswith("/") or not _climbs_out(path, text) else lead.path
    if lead.kind is Kind.NOWHERE or (lead.kind is Kind.MISSING and not rules.missing):
        return None
    inside = tree.inside(text) if text.startswith("/") else None
    if inside is None or (here and (rules.path_of(text) == text or ".." in inside.split("/"))):
        return text
    return None if ".." in inside.split("/") else posixpath.relpath(inside or ".", posixpath.dirname(path) or ".")


def _climbs_out(path: str, text: str) -> bool:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), text)).startswith("../")


def _leave_out_secrets(file: int) -> None:
    """Write the file anew, as large as one may be that is copied."""
    os.lseek(file, 0, os.SEEK_SET)
    with open(file, "rb", closefd=False) as whole:
        data = redact_bytes(whole.read())
    os.lseek(file, 0, os.SEEK_SET)
    os.ftruncate(file, 0)
    write_all(file, data)
