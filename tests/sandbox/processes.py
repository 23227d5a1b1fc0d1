"""Watching processes from outside."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


def new_tag() -> str:
    """A text that only the processes of one test have on their command line; also a number of seconds for sleep."""
    return f"7{uuid.uuid4().int % 10**4:04}.{uuid.uuid4().int % 10**12:012}"


def alive(tag: str) -> list[int]:
    """The living processes with `tag` on their command line, other than this one."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):
                state = (folder / "stat").read_bytes().rpartition(b")")[2].split()[0]
                if state not in (b"Z", b"X") and tag.encode() in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
    return found


def wait_until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Fail when `condition` does not become true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def can_confine_signals() -> bool:
    """Whether the kernel has Landlock with signal scopes (ABI 6)."""
    if not sys.platform.startswith("linux"):
        return False
    return int(ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))) >= 6


needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="orphans are kept on Linux only")
needs_signal_scopes = pytest.mark.skipif(not can_confine_signals(), reason="the kernel has no Landlock signal scopes")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")

ESCAPES = {
    "background": "sleep {tag} &",
    "nohup": "nohup sleep {tag} >/dev/null 2>&1 &",
    "setsid": "setsid sleep {tag} >/dev/null 2>&1 &",
    "double fork": "(setsid sh -c '(env -i sleep {tag} &)' &) >/dev/null 2>&1",
    "ignores signals": "setsid sh -c 'trap \"\" TERM HUP INT QUIT; while :; do sleep 0.1; done' {tag} &",
    "stopped": "(sleep {tag} & kill -STOP $!)",
    "writer": "setsid sh -c 'while :; do echo x >>beat; sleep 0.001; done' {tag} &",
    "forks on": (
        'setsid python3 -c \'import os\nwhile not os.fork():\n  os.setsid(); f = open("beat", "a"); '
        'f.write("x"); f.close()\' {tag} >/dev/null 2>&1 &'
    ),
}
"""Ways of a process to outlive the command that started it."""
