"""What the programs on the harness's PATH need of the disk beside the system's own folders."""

from __future__ import annotations

import dataclasses
import functools
import os
import pwd
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .host_path import lies_in
from .withholding import Withheld

SYSTEM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
)
"""What every isolating driver shows of the system, read-only, where it is there."""

USUAL_FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

_PROGRAM_FOLDERS = ("bin", "sbin", "shims")
_WHOLE_MARKS = ("pyvenv.cfg", "conda-meta", "versions")
"""What tells that a folder directly in HOME, or in /, holds an installation and nothing else."""

_PARTS_IN_HOME = ("lib", "lib64", "libexec")
_MOST_LINKS = 40


def exposed(search_path_folders: Sequence[str | Path]) -> tuple[Path, ...]:
    """Files and folders that the programs in these folders need to run, beside those in the usual folders.

    The folders themselves; what a program folder belongs to, such as a virtual environment; what links in them lead
    to, link by link; the harness's own interpreter. Never HOME as a whole, and of what lies directly in it the
    programs and libraries only. Paths are absolute and exist; some are links; one may lie inside another.
    """
    return _exposed(tuple(map(str, search_path_folders)), sys.prefix, sys.base_prefix, os.environ.get("HOME", ""))


@functools.lru_cache(maxsize=32)
def _exposed(folders: tuple[str, ...], prefix: str, base_prefix: str, home: str) -> tuple[Path, ...]:
    search = _Search(home)
    for folder in (*folders, *(f"{root}/bin" for root in (prefix, base_prefix))):
        search.take_folder(folder)
    return tuple(search.found)


class _Search:
    """Collects, each folder once."""

    def __init__(self, home: str) -> None:
        homes = [home, _account_home()]
        self._homes = {form for path in homes if path for form in (os.path.normpath(path), os.path.realpath(path))}
        self._taken: set[str] = set()
        self.found: dict[Path, None] = {}

    def take_folder(self, folder: str) -> None:
        """A folder of programs, what it belongs to, and what its links need."""
        todo = [folder]
        while todo:
            for form in _forms(todo.pop()):
                if form not in self._taken and _is_folder(form):
                    self._taken.add(form)
                    for part in (form, *self._whole_of(form)) if form not in USUAL_FOLDERS else ():
                        self._add(part)
                    todo += self._link_folders(form)

    def _add(self, path: str) -> None:
        if os.path.lexists(path) and not self._is_too_much(path):
            self.found[Path(path)] = None

    def _is_too_much(self, path: str) -> bool:
        """Whether a folder is HOME or one that holds it."""
        return any(home == path or home.startswith(path.rstrip("/") + "/") for home in self._homes)

    def _whole_of(self, folder: str) -> list[str]:
        """What the folder of programs is a part of; nothing for folders with other names."""
        parent, name = os.path.split(folder)
        if name == ".bin" and Path(parent).name == "node_modules":
            return [parent]
        if name not in _PROGRAM_FOLDERS:
            return []
        in_home = str(Path(parent).parent) in {"/", *self._homes}
        if in_home and name != "shims" and not any(os.path.lexists(f"{parent}/{mark}") for mark in _WHOLE_MARKS):
            return [f"{parent}/{part}" for part in _PARTS_IN_HOME]
        return [parent]

    def _link_folders(self, folder: str) -> list[str]:
        """Add what the links of a folder lead to; the program folders among where that lies."""
        further = []
        for target in _targets(folder):
            if in_system(target):
                continue
            above = str(Path(target).parent)
            if self._whole_of(above):
                further.append(above)
            else:
                self._add(target)
        return further


def in_system(path: str) -> bool:
    """Whether an absolute path lies in the folders that every isolating driver shows."""
    return any(lies_in(path, folder) for folder in SYSTEM_FOLDERS)


@dataclasses.dataclass(frozen=True)
class HostPrograms:
    """The system and the programs of this machine, those in some folders of a PATH among them."""

    folders: Sequence[str] = ()

    def holds(self, path: str) -> bool:
        """Whether an absolute path is one of these; what is in HOME is only where it belongs to a program."""
        if any(Path(path).is_relative_to(shown) for shown in exposed(self.folders)):
            return True
        return in_system(path) and not Withheld([Path(os.environ.get("HOME") or "/root")]).holds(path)

    def host_path_of(self, path: str) -> str:
        """The path itself."""
        return path


def _targets(folder: str) -> Iterator[str]:
    """What the links in a folder lead to, link by link."""
    try:
        with os.scandir(folder) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return
    for link in links:
        yield from _chain(link)


def _chain(link: str) -> Iterator[str]:
    for _ in range(_MOST_LINKS):
        try:
            target = Path(link).readlink()
        except OSError:
            return
        link = os.path.normpath(Path(os.path.realpath(Path(link).parent), target))
        yield link


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:
        return False


def _forms(path: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((os.path.normpath(path), os.path.realpath(path))))


def _account_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""
