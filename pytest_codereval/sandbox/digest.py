"""Fingerprints of files and directory trees, to see whether somebody changed them."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from .. import clock

EXCLUDED = (".git", "__pycache__", ".codereval", ".pytest_cache", ".mypy_cache", ".ruff_cache")

MOST_LINKED_ENTRIES = 50_000
MOST_LINKED_BYTES = 1 << 30
"""How much outside the tree is looked at for its links; of what is beyond, only size and times count."""

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


def digest(
    path: Path,
    exclude: Collection[Path] = (),
    *,
    excluded_names: Collection[str] = EXCLUDED,
    follow_links: bool = True,
) -> Digest:
    """Fingerprint names, types and contents of `path` and all below it but for `excluded_names`.

    Of a file's mode it counts whether its owner may execute it, as in Git.
    `path` itself is resolved. Other links count by their text and, with `follow_links`, by what they lead to: the
    content of a file, the tree of a directory. `exclude` are absolute places to leave out. What cannot be read, and a
    missing path, count as such.
    """
    walk = _Walk(os.path.realpath(path), {os.path.realpath(place) for place in exclude}, frozenset(excluded_names))
    entries = dict(sorted(walk.entries(follow_links)))
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


class _Walk:
    """Walks the tree itself, then what its links lead to; each directory once, so that no loop of links goes on."""

    def __init__(self, root: str, exclude: Collection[str], excluded_names: Collection[str]) -> None:
        self._root = root
        self._exclude = exclude
        self._names = excluded_names
        self._seen: set[str] = set()
        self._links: list[tuple[str, str]] = []
        self._left_entries = MOST_LINKED_ENTRIES
        self._left_bytes = MOST_LINKED_BYTES

    def entries(self, follow_links: bool) -> Iterator[tuple[str, str]]:
        yield from self._tree(self._root, ".", linked=False)
        while follow_links and self._links:
            links, self._links = sorted(self._links), []
            for name, path in links:
                yield from self._tree(os.path.realpath(path), f"{name} (target)", linked=True)

    def _tree(self, top: str, top_name: str, *, linked: bool) -> Iterator[tuple[str, str]]:
        todo = [(top, top_name)]
        while todo:
            path, name = todo.pop()
            if path in self._exclude or path in self._seen or (linked and self._left_entries <= 0):
                continue
            self._seen.add(path)
            self._left_entries -= linked
            try:
                found = os.lstat(path)
                if not stat.S_ISDIR(found.st_mode):
                    yield name, self._value(path, name, found, linked)
                    continue
                with os.scandir(path) as below:
                    names = sorted((entry.name for entry in below if entry.name not in self._names), reverse=True)
            except OSError as error:
                if not (linked and isinstance(error, FileNotFoundError)):
                    yield name, f"unreadable: {error.strerror}"
                continue
            yield name, "directory"
            todo += [(f"{path}/{each}", each if name == "." else f"{name}/{each}") for each in names]

    def _value(self, path: str, name: str, found: os.stat_result, linked: bool) -> str:
        if stat.S_ISLNK(found.st_mode):
            self._links.append((name, path))
            return f"link: {hashlib.sha256(os.fsencode(Path(path).readlink())).hexdigest()}"
        if not stat.S_ISREG(found.st_mode):
            return f"special: {stat.S_IFMT(found.st_mode):o}"
        if linked:
            self._left_bytes -= found.st_size
            if self._left_bytes < 0:
                return f"large: {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"
        return f"{'program' if found.st_mode & stat.S_IXUSR else 'file'}: {_file_digest(path, found)}"


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
