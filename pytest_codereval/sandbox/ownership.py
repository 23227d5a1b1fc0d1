"""The users that sandboxes run as where the harness is root, and how files of the harness are given to them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from ..errors import Cause, TrialError
from .enclosure import Owner
from .keyrings import clear_keyrings

AGENT = Owner(61000, 61000)
"""A user that owns nothing on this machine: the first of those that are claimed, and the only one of containers."""

USERS = 50
"""How many sandboxes can have a user of their own at the same time: those from `AGENT` on."""

_SECOND = 100
_PATIENCE = 120.0
_PAUSE = 0.05


class Claim:
    """A user that no other sandbox has until `release`, or until this process dies."""

    def __init__(self, owner: Owner, lock: int) -> None:
        self.owner = owner
        self._lock = lock
        self._process = os.getpid()
        _claims.add(self)

    def release(self) -> None:
        """Let others have it. May be called twice. In a forked copy of the process nothing is let go of."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            if self._process == os.getpid():
                fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)


_claims: weakref.WeakSet[Claim] = weakref.WeakSet()


def claim(base: Path, *, patience: float = _PATIENCE, pause: Callable[[float], None] = time.sleep) -> Claim:
    """A user that no other sandbox has among those of all processes that keep theirs below `base`.

    What an earlier one left in the keyrings of the kernel is gone. Waits `patience` seconds for one when all are taken.
    Raises TrialError(SANDBOX).
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            found = _free(base / "users")
        except OSError as error:
            raise TrialError(Cause.SANDBOX, f"no user can be claimed in {base}: {error}") from error
        if found is not None:
            clear_keyrings(found.owner.uid)
            return found
        if time.monotonic() > deadline:
            last = AGENT.uid + USERS - 1
            raise TrialError(
                Cause.SANDBOX,
                f"all {USERS} users of sandboxes ({AGENT.uid} to {last}) were in use for {patience:.0f} s: run fewer "
                f"trials at the same time",
            )
        pause(_PAUSE)


def _free(folder: Path) -> Claim | None:
    folder.mkdir(0o700, exist_ok=True)
    for number in range(USERS):
        lock = os.open(folder / f"{AGENT.uid + number}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        except BaseException:
            os.close(lock)
            raise
        else:
            return Claim(Owner(AGENT.uid + number, AGENT.gid + number), lock)
    return None


def second(owner: Owner) -> Owner:
    """Another user for the same sandbox, whose processes those of the first can neither signal nor trace."""
    return Owner(owner.uid + _SECOND, owner.gid + _SECOND)


def hand_over(folder: Path, owner: Owner) -> None:
    """Make `owner` the owner of a tree that no process works in now. Links are not followed. Raises OSError."""
    if not os.path.lexists(folder):
        return
    _give(folder, owner)
    todo = [folder] if folder.is_dir() and not folder.is_symlink() else []
    while todo:
        with os.scandir(todo.pop()) as entries:
            for entry in entries:
                _give(entry.path, owner)
                if entry.is_dir(follow_symlinks=False):
                    todo.append(Path(entry.path))


def _give(path: str | os.PathLike[str], owner: Owner) -> None:
    found = os.lstat(path)
    if (found.st_uid, found.st_gid) != (owner.uid, owner.gid):
        os.lchown(path, owner.uid, owner.gid)


def _forget_after_fork() -> None:
    """A copy of this process keeps no user taken."""
    for each in tuple(_claims):
        with contextlib.suppress(OSError):
            each.release()


os.register_at_fork(after_in_child=_forget_after_fork)
