"""What preparation left in HOME, TMPDIR and the virtual environment, kept so that grading finds it and nothing else."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path

from .digest import Digest, difference, digest
from .environment import Places

LOGIN_FILES = (".profile", ".bash_profile", ".zprofile")

_CODE_SUFFIXES = (".py", ".so", ".pyc")
_RUN_AT_START = ("sitecustomize", "usercustomize")


class Preparation:
    """Taken when preparation has ended, before the agent starts; given to grading after the agent is dead.

    `grading` are the places of grading, of whose names nobody is told before; `running` those of the programs that
    graders have run, which cannot touch what graders use; `launcher` is where graders find how to run them. Raises
    OSError when there is no room.
    """

    def __init__(self, root: Path, places: Places, login_line: str, venv: Path | None) -> None:
        own = root / secrets.token_hex(4)
        self.folder = own
        self.grading = Places(own / "home", own / "tmp", own / "tools", own / "cache")
        run = own / "run"
        self.running = Places(run / "home", run / "tmp", own / "tools", run / "cache")
        self.launcher = own / "launcher"
        self.login_line = _login_line(self.grading)
        self._kept = root / secrets.token_hex(4)
        self._before: dict[str, Digest] = {}
        self._venv = venv
        self._venv_before = _venv_digest(venv) if venv is not None else None
        if _holds_more_than_login_files(places.home, login_line) or any(os.scandir(places.tmp)):
            self._keep(places, login_line)

    def _keep(self, places: Places, login_line: str) -> None:
        moved = {str(places.home): str(self.grading.home), str(places.tmp): str(self.grading.tmp)}
        self._kept.mkdir(0o700)
        for source in (places.home, places.tmp):
            _copy_tree(source, self._kept / source.name, moved)
        _replace_line(self._kept / "home", login_line, self.login_line)
        self._before = {name: _content(self._kept / name) for name in ("home", "tmp")}

    def restore(self) -> list[str]:
        """Make the places of grading, once; what the agent changed of what was kept, which is then left out.

        Raises OSError when they cannot be made.
        """
        self.folder.mkdir(0o700)
        self.running.home.parent.mkdir(0o700)
        for folder in (self.launcher, self.launcher / "bin", self.launcher / "spool"):
            folder.mkdir(0o755)
        problems = self._restore_kept()
        write_login_files(self.grading.home, self.login_line)
        write_login_files(self.running.home, _login_line(self.running))
        return problems

    def _restore_kept(self) -> list[str]:
        problems = []
        moved = {str(self.grading.home): str(self.running.home), str(self.grading.tmp): str(self.running.tmp)}
        for name in ("home", "tmp"):
            place, other = getattr(self.grading, name), getattr(self.running, name)
            changes = difference(self._before[name], _content(self._kept / name)) if name in self._before else ()
            if changes:
                problems.append(f"what was kept of {'HOME' if name == 'home' else 'TMPDIR'} for grading: {changes[0]}")
            if changes or name not in self._before:
                place.mkdir(0o700)
                other.mkdir(0o700)
            else:
                (self._kept / name).rename(place)
                _copy_tree(place, other, moved)
        _replace_line(self.running.home, self.login_line, _login_line(self.running))
        return problems

    def venv_problems(self, base_path: str) -> list[str]:
        """What the agent did to the virtual environment so that it no longer runs what was staged there.

        More packages are welcome as long as they take nothing's place and do not run by themselves.
        """
        if self._venv is None or self._venv_before is None:
            return []
        now = _venv_digest(self._venv)
        staged = self._venv_before.entries
        modules = {_module(name) for name in staged} - {""}
        problems = [text for text in difference(self._venv_before, now) if not text.startswith("added: ")]
        for name in now.entries.keys() - staged.keys():
            folder, _, base = name.rpartition("/")
            stands_before = folder == "bin" and shutil.which(base, path=base_path) is not None
            runs_by_itself = base.endswith(".pth") or base.split(".")[0] in _RUN_AT_START
            if stands_before or runs_by_itself or _module(name) in modules:
                problems.append(f"added: {name}")
        return [f"the virtual environment: {text}" for text in sorted(problems)]


def _login_line(places: Places) -> str:
    return f". {places.login_script}\n"


def _replace_line(home: Path, old: str, new: str) -> None:
    for file in (home / name for name in LOGIN_FILES):
        if file.is_file() and not file.is_symlink():
            file.write_bytes(file.read_bytes().replace(os.fsencode(old), os.fsencode(new)))


def write_login_files(home: Path, line: str) -> None:
    """Make the start-up files of login shells that are not there."""
    for name in LOGIN_FILES:
        if not os.path.lexists(home / name):
            write_new(home / name, line)


def write_new(path: Path, text: str) -> None:
    """Write a file of ours that only its owner may touch, never through a link."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, os.fsencode(text))
    finally:
        os.close(descriptor)


def _holds_more_than_login_files(home: Path, line: str) -> bool:
    with os.scandir(home) as entries:
        names = sorted(entry.name for entry in entries)
    return names != sorted(LOGIN_FILES) or any((home / name).read_bytes() != os.fsencode(line) for name in names)


def _content(folder: Path) -> Digest:
    return digest(folder, excluded_names=(), follow_links=False)


def _venv_digest(folder: Path) -> Digest:
    return digest(folder, excluded_names=("__pycache__",))


def _module(name: str) -> str:
    """The path of a Python module or package without its suffix, "" for what is none."""
    folder, _, base = name.rpartition("/")
    stem, _, rest = base.partition(".")
    if stem == "__init__":
        return folder
    return f"{folder}/{stem}" if f".{rest}".endswith(_CODE_SUFFIXES) and stem.isidentifier() else ""


def _copy_tree(source: Path, target: Path, moved: Mapping[str, str]) -> None:
    """Copy files, folders and links; a link into one of the `moved` trees leads to where that tree will be."""
    todo = [(source, target)]
    done = []
    while todo:
        reading, writing = todo.pop()
        writing.mkdir(0o700)
        done.append((reading, writing))
        with os.scandir(reading) as entries:
            for entry in entries:
                below = writing / entry.name
                if entry.is_symlink():
                    below.symlink_to(_moved(str(Path(entry.path).readlink()), moved))
                elif entry.is_dir():
                    todo.append((Path(entry.path), below))
                elif entry.is_file():
                    shutil.copy2(entry.path, below)
    for reading, writing in reversed(done):
        shutil.copystat(reading, writing)


def _moved(text: str, moved: Mapping[str, str]) -> str:
    for old, new in moved.items():
        if text == old or text.startswith(f"{old}/"):
            return new + text[len(old) :]
    return text
