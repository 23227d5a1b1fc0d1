"""Not too many costly calls of the daemon at once, counted over all processes of this user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from ... import clock
from ...errors import Cause, TrialError
from ..registry import Registry

AT_ONCE = 4
"""Containers that are started or removed at the same time."""

PATIENCE = 600.0
"""Seconds after which waiting for a turn is given up."""

_PAUSE = 0.005


@contextlib.contextmanager
def turn(place: Registry, at_once: int = AT_ONCE) -> Iterator[None]:
    """Hold one of the `at_once` turns; nothing else is to be waited for meanwhile.

    A process that dies gives its turn back. Raises TrialError(SANDBOX) when none can be had for long.
    """
    descriptor = _taken(place.home.parent / "turns", at_once)
    try:
        yield
    finally:
        os.close(descriptor)


def _taken(folder: Path, at_once: int) -> int:
    folder.mkdir(0o700, exist_ok=True)
    deadline = clock.monotonic() + PATIENCE
    first = os.getpid()
    while True:
        for number in range(at_once):
            descriptor = _try(folder / str((first + number) % at_once))
            if descriptor is not None:
                return descriptor
        if clock.monotonic() > deadline:
            raise TrialError(Cause.SANDBOX, f"no turn at the Docker daemon for {PATIENCE:.0f} s: it may hang")
        time.sleep(_PAUSE)


def _try(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
