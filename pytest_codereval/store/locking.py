"""Locks on files, held by one process or thread at a time and freed by its death."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from .. import clock
from ..errors import CoderEvalError

PATIENCE = 60.0
"""Seconds to wait for a lock that others hold for microseconds: after that, a holder has been stopped."""


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock of the file `path`, made when missing, and give its descriptor (read, append).

    Raises CoderEvalError when it cannot be opened, or is still held by others after `PATIENCE`.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise CoderEvalError(f"{path} cannot be opened: {error.strerror}") from None
    try:
        _wait_for(descriptor, path)
        yield descriptor
    finally:
        release(descriptor)


def try_lock(descriptor: int) -> bool:
    """Take the lock if it is free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """Free the lock, also where a forked child has inherited it, and close the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path) -> None:
    if try_lock(descriptor):
        return
    end = clock.monotonic() + PATIENCE
    pause = 0.0002
    while not try_lock(descriptor):
        if clock.monotonic() > end:
            raise CoderEvalError(f"{path} has been locked by another process for {PATIENCE:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 0.01)
