"""Takes out of the repositories of a graded copy what would have git run programs or read other places."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

from .git_settings import BROKEN, Cut, cut
from .snapshot import Manifest, Skipped

WHOLE = "config.agent"
"""Beside a configuration that was written anew, what it was."""

_LARGEST = 1 << 20
_MOST_NAMES = 20
_NAMES = ("config", "config.worktree", "commondir", ".git", WHOLE)


def disarm(copy: Path, manifest: Manifest, known_as: Path) -> tuple[Skipped, ...]:
    """Disarm each repository of the tree at `copy`, whose absolute paths name it `known_as`; what was done where.

    A configuration with settings that could run a program is renamed and written anew without them. A `.git` file or a
    `commondir` that leads out of the tree is removed. Raises OSError.
    """
    work = _Disarming(copy, known_as)
    for path in _candidates(manifest):
        folder, name = posixpath.split(path)
        try:
            with _times_kept(copy / folder):
                work.look(folder, name)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            work.tell(folder, name, "not looked into: its path is too long")
    return tuple(work.done)


def _candidates(manifest: Manifest) -> Iterator[str]:
    paths = [*(file.path for file in manifest.files), *manifest.links]
    found = (path for path in paths if path.endswith(_NAMES) and posixpath.basename(path) in _NAMES)
    return iter(sorted(found, key=lambda path: posixpath.basename(path) != WHOLE))


class _Disarming:
    def __init__(self, copy: Path, known_as: Path) -> None:
        self._copy = copy
        self._real = os.path.realpath(copy)
        self._known_as = os.fspath(known_as)
        self.done: list[Skipped] = []

    def look(self, folder: str, name: str) -> None:
        """Disarm one file, if it belongs to a repository."""
        place = self._copy / folder
        if name == ".git":
            text = _content(place / name)
            if text is not None and text.startswith(b"gitdir:"):
                self._pointer(folder, name, text[len(b"gitdir:") :])
        elif name == "commondir":
            if os.path.lexists(place / "HEAD"):
                self._pointer(folder, name, _content(place / name) or b"/")
        elif name == "config.worktree" or _is_repository(place):
            if name == WHOLE:
                (place / name).unlink()
                self.tell(folder, name, "left out: the name of what is made for graders")
            else:
                self._settings(folder, name)

    def _pointer(self, folder: str, name: str, text: bytes) -> None:
        target = os.fsdecode(text.strip(b" \t\r\n"))
        if not self._is_inside(folder, target):
            (self._copy / folder / name).unlink()
            self.tell(folder, name, f"leads out of the workspace: {_short(target)}")

    def _is_inside(self, folder: str, target: str) -> bool:
        if not target or "\0" in target:
            return False
        if target == self._known_as or target.startswith(f"{self._known_as}/"):
            target = f"{self._copy}{target[len(self._known_as) :]}"
        found = os.path.realpath(self._copy / folder / target)
        return found == self._real or found.startswith(f"{self._real}/")

    def _settings(self, folder: str, name: str) -> None:
        place = self._copy / folder
        if not (place / name).exists():
            return
        text = _content(place / name)
        if text is None:
            result = Cut(BROKEN, (), True)
        else:
            result = cut(text, lambda value: self._is_inside(folder, os.fsdecode(value)))
        if result.text == text:
            return
        mode = (place / name).stat().st_mode & 0o666
        if not (place / WHOLE).is_dir() and name == "config":
            (place / name).rename(place / WHOLE)
        else:
            (place / name).unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(place / name, flags, 0o600), "wb") as file:
            file.write(result.text)
            os.fchmod(file.fileno(), mode | 0o600)
        self.tell(folder, name, _reason(result))

    def tell(self, folder: str, name: str, reason: str) -> None:
        """Note what was done to a file."""
        self.done.append(Skipped(posixpath.join(folder, name), reason))


def _reason(result: Cut) -> str:
    if result.left_out:
        names = ", ".join(map(_short, result.left_out[:_MOST_NAMES]))
        more = f" and {len(result.left_out) - _MOST_NAMES} more" if len(result.left_out) > _MOST_NAMES else ""
        return f"settings of git that graders must not follow: {names}{more}"
    return "cannot be read by git" if result.broken else "written anew in plain form, with the same settings"


def _is_repository(folder: Path) -> bool:
    """Whether git may take its configuration from here: for a repository, or for another one that names this one."""
    return all(os.path.lexists(folder / name) for name in ("objects", "refs"))


def _content(path: Path) -> bytes | None:
    """None for what cannot be read, or is larger than any honest one."""
    with contextlib.suppress(OSError):
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            text = file.read(_LARGEST + 1)
        return text if len(text) <= _LARGEST else None
    return None


@contextlib.contextmanager
def _times_kept(folder: Path) -> Iterator[None]:
    before = folder.stat()
    yield
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


def _short(text: str) -> str:
    printable = text.encode("ascii", "backslashreplace").decode("ascii")
    return printable if len(printable) <= 100 else f"{printable[:97]}..."
