"""Where staging roots lie, and how what a killed harness left there is found and removed."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
import secrets
import signal
import stat
import tempfile
from pathlib import Path

from ..errors import Cause, TrialError
from .removal import remove_tree
from .withholding import Withheld

_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._/+=@-]+")
_USUAL, _AWAY = "/tmp", "/var/tmp"
"""Sandboxes stay away from the usual directory for temporary files, so that their agents can be let use it."""


class Registry:
    """The roots of one process below one parent directory.

    A lock file is held for the life of the process before anything else is written: a directory whose lock is free
    belongs to nobody. `<parent>/cev-<uid>/<name>.lock` and `<parent>/cev-<uid>/<name>/`.
    """

    def __init__(self, parent: Path) -> None:
        self._base = _own_directory(parent)
        self.owner = os.getpid()
        self.leftovers = _sweep(self._base)
        self._lock, self.home = _claim(self._base)
        self._numbers = itertools.count(1)

    def new_root(self) -> Path:
        """A fresh, empty directory with an opaque name, for one trial."""
        self.repair()
        root = self.home / f"t{next(self._numbers)}"
        root.mkdir(0o700, parents=False)
        return root

    def repair(self) -> list[str]:
        """Take back the permissions of the directories above the roots; what was wrong with this process's own.

        The one further up is shared with other processes, so nobody can tell who changed it.
        """
        take_back(self._base)
        return take_back(self.home)

    def release(self) -> None:
        """Remove everything and give the lock back. Nothing may be used afterwards."""
        if self.owner == os.getpid():
            self.repair()
            if not remove_tree(self.home):
                with contextlib.suppress(OSError):
                    _lock_path(self.home).unlink()
        os.close(self._lock)

    def forget(self) -> None:
        """Close the lock file in a forked copy of this process."""
        os.close(self._lock)


_registries: dict[Path, Registry] = {}


def registry(parent: Path | None = None, *, avoid: Withheld | None = None) -> Registry:
    """The registry of this process below `parent`, by default below the system's directory for temporary files.

    By default a directory inside a place to `avoid` is only taken when there is no other.

    Raises TrialError(SANDBOX) when no usable directory is there, TrialError(CONFIGURATION) when `parent` is unusable.
    """
    place = Path(os.path.realpath(parent)) if parent is not None else _temporary_directory(avoid)
    known = _registries.get(place)
    if known is not None:
        known.repair()
        if known.home.is_dir():
            return known
        known.release()
        del _registries[place]
    if (problem := _problem(place)) is not None:
        raise TrialError(Cause.CONFIGURATION, f"sandboxes cannot lie in {place}: {problem}")
    try:
        _registries[place] = Registry(place)
    except OSError as error:
        raise TrialError(Cause.SANDBOX, f"cannot make a place for sandboxes in {place}: {error}") from error
    return _registries[place]


def release_all() -> None:
    """Remove the directories of this process; called when it ends."""
    while _registries:
        _registries.popitem()[1].release()


def take_back(folder: Path) -> list[str]:
    """Make a directory of ours private to its owner again; what was wrong, in words."""
    try:
        found = os.lstat(folder)
        if not stat.S_ISDIR(found.st_mode):
            return [f"{folder} was replaced"]
        if found.st_mode & 0o777 == 0o700:
            return []
        folder.chmod(0o700)
    except FileNotFoundError:
        return [f"{folder} was removed"]
    except OSError as error:
        return [f"{folder}: {error.strerror}"]
    return [f"the permissions of {folder} were changed"]


def kill_below(root: Path, *, by_arguments: bool = False) -> list[int]:
    """Kill the processes that name `root` by environment, working directory or root directory; their ids.

    For the case that nobody keeps them any more. Repeats until none is found. Those that name it in an argument only
    are killed when that is asked for.
    """
    killed: list[int] = []
    for _ in range(200):
        found = _processes_below(root, by_arguments)
        if not found:
            break
        killed += found
        for pid in found:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    return killed


def _processes_below(root: Path, by_arguments: bool) -> list[int]:
    if not Path("/proc/self").is_dir():
        return []
    own = os.getpid()
    inside = os.fsencode(f"{root}/")
    found = []
    with os.scandir("/proc") as processes:
        for process in processes:
            if process.name.isdigit() and int(process.name) != own and _names(Path(process.path), inside, by_arguments):
                found.append(int(process.name))
    return found


def _names(process: Path, inside: bytes, by_arguments: bool) -> bool:
    try:
        if (process / "stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X"):
            return False
        if any(os.fsencode((process / link).readlink()).startswith(inside) for link in ("cwd", "root")):
            return True
        if by_arguments and inside in (process / "cmdline").read_bytes():
            return True
        return inside in (process / "environ").read_bytes()
    except (OSError, IndexError):
        return False


def _temporary_directory(avoid: Withheld | None) -> Path:
    asked = tempfile.gettempdir()
    first = _AWAY if asked == _USUAL and "TMPDIR" not in os.environ else asked
    candidates = [Path(os.path.realpath(candidate)) for candidate in (first, asked, _USUAL, _AWAY)]
    usable = [place for place in candidates if _problem(place) is None]
    outside = [place for place in usable if avoid is None or not avoid.holds(str(place))]
    if usable:
        return (outside or usable)[0]
    raise TrialError(
        Cause.SANDBOX,
        f"no directory for sandboxes: {asked}: {_problem(Path(asked))}; set TMPDIR",
    )


def _problem(place: Path) -> str | None:
    if not _PLAIN_PATH.fullmatch(str(place)):
        return "its path has a character that shell commands do not take unquoted"
    if not os.access(f"{place}/.", os.W_OK | os.X_OK):
        return "it is not there, no directory, or not writable"
    if os.statvfs(place).f_flag & getattr(os, "ST_NOEXEC", 0):
        return "programs cannot be run there (mounted noexec)"
    return None


def _own_directory(parent: Path) -> Path:
    """The directory of this user, private to him. Raises TrialError(SANDBOX) when somebody else made it."""
    base = parent / f"cev-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        base.mkdir(0o700)
    found = os.lstat(base)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise TrialError(Cause.SANDBOX, f"{base} belongs to somebody else; remove it or set TMPDIR")
    if stat.S_IMODE(found.st_mode) != 0o700:
        base.chmod(0o700)
    return base


def _claim(base: Path) -> tuple[int, Path]:
    """Lock a name that nobody has, then make its directory."""
    while True:
        home = base / secrets.token_hex(4)
        lock = os.open(_lock_path(home), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with contextlib.suppress(BlockingIOError, FileNotFoundError, FileExistsError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_ino == _lock_path(home).stat().st_ino:
                home.mkdir(0o700)
                return lock, home
        os.close(lock)


def _lock_path(home: Path) -> Path:
    return home.with_suffix(".lock")


def _sweep(base: Path) -> tuple[str, ...]:
    """Remove what dead processes left: kill what still works there first. What could not be removed."""
    leftovers: list[str] = []
    for lock_path in base.glob("*.lock"):
        try:
            lock = os.open(lock_path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            home = lock_path.with_suffix("")
            if home.is_dir():
                kill_below(home)
            problems = remove_tree(home)
            leftovers += problems
            if not problems:
                lock_path.unlink()
        except OSError:
            continue
        finally:
            os.close(lock)
    return tuple(leftovers)


def _forget_after_fork() -> None:
    while _registries:
        with contextlib.suppress(OSError):
            _registries.popitem()[1].forget()


os.register_at_fork(after_in_child=_forget_after_fork)
