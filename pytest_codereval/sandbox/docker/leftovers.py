"""Containers of harnesses that died without removing them: told by their labels, removed by the next one here."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..registry import Registry
from .engine import Daemon, client, status_of, told

LABEL = "pytest-codereval"
SESSION, TRIAL, PID, USER, HOST, LOCK = (
    f"{LABEL}.{name}" for name in ("session", "trial", "pid", "user", "host", "lock")
)

_swept: set[tuple[int, Path]] = set()


def labels(place: Registry, session: str = "", trial: str = "") -> dict[str, str]:
    """What tells whose a container, network or volume is."""
    return {
        LABEL: "1",
        SESSION: session,
        TRIAL: trial,
        PID: str(os.getpid()),
        USER: str(os.getuid()),
        HOST: host(place),
        LOCK: str(place.home.with_suffix(".lock")),
    }


def host(place: Registry) -> str:
    """A name of this machine and of the directory that the lock files of this user lie in."""
    base = place.home.parent.stat()
    machine = _machine()
    return hashlib.sha256(f"{machine} {base.st_dev} {base.st_ino}".encode()).hexdigest()[:16]


def _machine() -> str:
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        with contextlib.suppress(OSError):
            if found := Path(path).read_text(encoding="ascii", errors="replace").strip():
                return found
    return os.uname().nodename


def sweep_once(used: Daemon, place: Registry) -> tuple[str, ...]:
    """Remove what dead harnesses of this user left on this machine, once per process; the names of what was removed.

    Raises TrialError(SANDBOX) when the daemon fails.
    """
    key = (os.getpid(), place.home.parent)
    if key in _swept:
        return ()
    _swept.add(key)
    return sweep(used, place)


def sweep(used: Daemon, place: Registry) -> tuple[str, ...]:
    """As `sweep_once`, each time it is called."""
    wanted = {LABEL: "1", HOST: host(place), USER: str(os.getuid())}
    asked = {"label": [f"{name}={value}" for name, value in wanted.items()]}
    api = client(used)
    with told("looking for leftovers"):
        found = api.containers(all=True, filters=asked)
        return tuple(name for each in found if (name := _removed(api, each)) is not None)


def _removed(api: Any, container: Mapping[str, Any]) -> str | None:
    """Remove a container whose harness is dead; its name, None when it lives or somebody else was faster."""
    if not is_ownerless(Path((container.get("Labels") or {}).get(LOCK, ""))):
        return None
    try:
        api.remove_container(container["Id"], force=True, v=True)
    except Exception as error:
        if status_of(error) in (404, 409):
            return None
        raise
    return str((container.get("Names") or [container["Id"]])[0]).lstrip("/")


def is_ownerless(lock: Path) -> bool:
    """Whether the harness that holds this lock file is dead: nobody holds it, or it is gone."""
    if not lock.is_absolute():
        return False
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)
