"""What supervisor and keepers ask of the kernel: their descendants, and signals."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Collection

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

_CAPABILITIES_VERSION = 0x20080522
_POWERS = {
    "SYS_MODULE": 16,
    "SYS_RAWIO": 17,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_BOOT": 22,
    "PERFMON": 38,
    "BPF": 39,
}
"""Capabilities by which root reads the memory of processes and of the kernel, whatever a thread is restricted to."""

MOST_AT_ONCE = 500


class Wakeup:
    """A pipe that becomes readable when a child ends. Made in the main thread."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self.reader, 4096)


def prctl(option: int, value: int) -> bool:
    try:
        return bool(ctypes.CDLL(None).prctl(option, value, 0, 0, 0) == 0)
    except (AttributeError, OSError):
        return False


def give_up_powers() -> None:
    """Take from this thread the capabilities that undo its restrictions, also from what it starts if it has
    PR_SET_NO_NEW_PRIVS set. Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()
    if libc.capget(header, sets):
        raise OSError(ctypes.get_errno(), "the capabilities cannot be read")
    given_up = sum(1 << number for number in _POWERS.values())
    for index, word in enumerate((given_up & 0xFFFFFFFF,) * 3 + (given_up >> 32,) * 3):
        sets[index] &= ~word
    if libc.capset(header, sets):
        raise OSError(ctypes.get_errno(), "the capabilities cannot be given up")


def children(pid: int) -> list[int]:
    """Process ids of the direct children, by each of its threads."""
    found: list[int] = []
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with contextlib.suppress(OSError), open(f"{thread.path}/children", "rb") as file:
                found += map(int, file.read().split())
    return found


def _children_by_parent() -> dict[int, list[int]]:
    """The same for kernels without the `children` file: from every process's own account of its parent."""
    found: dict[int, list[int]] = {}
    with os.scandir("/proc") as processes:
        for pid in (int(process.name) for process in processes if process.name.isdigit()):
            found.setdefault(int(process_state(pid)[1]), []).append(pid)
    return found


def process_state(pid: int) -> list[bytes]:
    """State, parent and so on, as in proc(5) from the third field on."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()
    except OSError:
        return [b"X", b"0"]


def descendants(pid: int, spared: Collection[int] = ()) -> list[int]:
    """All processes below `pid`, without the trees of `spared`."""
    if not os.access("/proc/self", os.F_OK):
        return []
    known = None if os.access(f"/proc/self/task/{os.getpid()}/children", os.R_OK) else _children_by_parent()
    found: list[int] = []
    todo = [pid]
    while todo:
        parent = todo.pop()
        direct = children(parent) if known is None else known.get(parent, [])
        below = [child for child in direct if child not in spared]
        found += below
        todo += below
    return found


def ended_children() -> list[tuple[int, int]]:
    """Reap children that have ended: their ids and wait statuses, at most `MOST_AT_ONCE`, for new ones may come faster.

    Raises ChildProcessError when no child is left.
    """
    found: list[tuple[int, int]] = []
    try:
        while len(found) < MOST_AT_ONCE and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append(ended)
    except ChildProcessError:
        if not found:
            raise
    return found


def kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGKILL)


def kill_confined(*outside: int) -> None:
    """Kill all processes that the signals of this confined thread reach, in one step that no fork outruns.

    A helper does it, and only after the kernel has refused it a signal to each of the processes `outside`, which must
    include one that lives: without the scope it would reach everything of this user.
    """
    with contextlib.suppress(OSError):
        if os.fork() == 0:
            try:
                if outside and all(_is_out_of_reach(pid) for pid in outside):
                    os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)


def _is_out_of_reach(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
