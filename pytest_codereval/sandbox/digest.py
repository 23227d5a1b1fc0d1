"""Fingerprints of files and directory trees, to see whether somebody changed them."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from .. import clock

EXCLUDED = (".git", "__pycache__", "*.pyc")

_CHUNK = 1 << 20
_SETTLED = 1.0
"""Seconds after its last change from which on the time stamps of a file tell every later change."""

_Signature = tuple[int, int, int, int, int]
_known: dict[_Signature, str] = {}


@dataclasses.dataclass(frozen=True)
class Digest:
    """SHA-256 of a file or tree, and of each entry by relative path (`.` for a file by itself)."""

    sha256: str
    entries: Mapping[str, str]


def digest(path: Path) -> Digest:
    """Fingerprint names, types and contents below `path`, without .git, __pycache__ and *.pyc.

    Links count by their text and are not followed; what cannot be read, and a missing path, count as such.
    """
    entries = dict(sorted(_entries(path)))
    total = hashlib.sha256()
    for name, value in entries.items():
        total.update(os.fsencode(name) + b"\0" + value.encode() + b"\0")
    return Digest(total.hexdigest(), entries)


def difference(before: Digest, after: Digest) -> tuple[str, ...]:
    """What changed, one short text each: `changed: x`, `added: y`, `removed: z`. Empty when nothing did."""
    found = []
    for name in sorted({*before.entries, *after.entries}):
        old, new = before.entries.get(name), after.entries.get(name)
        if old != new:
            found.append(f"{'added' if old is None else 'removed' if new is None else 'changed'}: {name}")
    return tuple(found)


def _entries(root: Path) -> Iterator[tuple[str, str]]:
    todo = [(os.fspath(root), ".")]
    while todo:
        path, name = todo.pop()
        try:
            found = os.lstat(path)
            if not stat.S_ISDIR(found.st_mode):
                yield name, _value(path, found)
                continue
            with os.scandir(path) as below:
                names = [entry.name for entry in below]
        except OSError as error:
            yield name, f"unreadable: {error.strerror}"
            continue
        yield name, "directory"
        todo += [
            (f"{path}/{each}", each if name == "." else f"{name}/{each}")
            for each in names
            if not any(fnmatch.fnmatchcase(each, pattern) for pattern in EXCLUDED)
        ]


def _value(path: str, found: os.stat_result) -> str:
    if stat.S_ISLNK(found.st_mode):
        return f"link: {hashlib.sha256(os.fsencode(Path(path).readlink())).hexdigest()}"
    if not stat.S_ISREG(found.st_mode):
        return f"special: {stat.S_IFMT(found.st_mode):o}"
    return f"file: {_file_digest(path, found)}"


def _file_digest(path: str, found: os.stat_result) -> str:
    """The digest of a regular file; read again only when its stat signature is new or too young to be trusted."""
    signature = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if signature in _known:
        return _known[signature]
    settled = clock.now() - found.st_ctime > _SETTLED
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    total = hashlib.sha256()
    try:
        while chunk := os.read(descriptor, _CHUNK):
            total.update(chunk)
    finally:
        os.close(descriptor)
    value = total.hexdigest()
    if settled:
        _known[signature] = value
    return value
