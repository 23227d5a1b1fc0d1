"""The kernel's keyrings: of a session, which processes inherit, and of a user, which outlive his processes."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

_NUMBERS = {
    "x86_64": (117, 250),
    "aarch64": (147, 219),
    "riscv64": (147, 219),
    "loongarch64": (147, 219),
    "ppc64le": (164, 271),
    "s390x": (208, 280),
}
"""The system calls setresuid and keyctl, by machine. That of the C library would change all threads."""

_KEYCTL_JOIN_SESSION, _KEYCTL_SETPERM, _KEYCTL_CLEAR, _KEYCTL_GET_PERSISTENT = 1, 5, 7, 22
_OF_PROCESS, _OF_USER, _OF_SESSIONS = -2, -4, -5
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def can_clear() -> bool:
    """Whether the system calls of this machine are known here."""
    return sys.platform.startswith("linux") and os.uname().machine in _NUMBERS


def leave_session_keyring() -> None:
    """Give this process, which has one thread, a session keyring that nobody may read or write.

    What it starts inherits that in place of the operator's, whose keys each process that has it may read, whatever its
    user. Nothing happens where the kernel has none.
    """
    if can_clear():
        libc = ctypes.CDLL(None, use_errno=True)
        keyctl = _NUMBERS[os.uname().machine][1]
        joined = libc.syscall(keyctl, _KEYCTL_JOIN_SESSION, None)
        if joined > 0:
            libc.syscall(keyctl, _KEYCTL_SETPERM, joined, 0)


def clear_keyrings(uid: int) -> None:
    """Empty the keyrings of a user who has no process, as root. Nothing happens where the kernel has none."""
    if not can_clear():
        return
    libc = ctypes.CDLL(None, use_errno=True)
    dumpable = libc.prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0)
    thread = threading.Thread(target=_clear, args=(libc, uid), name="codereval-keyrings")
    thread.start()
    thread.join()
    libc.prctl(_PR_SET_DUMPABLE, dumpable, 0, 0, 0)


def _clear(libc: ctypes.CDLL, uid: int) -> None:
    """Only the calling thread becomes that user, and it ends with this."""
    setresuid, keyctl = _NUMBERS[os.uname().machine]
    if libc.syscall(setresuid, uid, uid, uid) != 0:
        return
    persistent = libc.syscall(keyctl, _KEYCTL_GET_PERSISTENT, -1, _OF_PROCESS)
    for keyring in (_OF_USER, _OF_SESSIONS, *([persistent] if persistent > 0 else [])):
        libc.syscall(keyctl, _KEYCTL_CLEAR, keyring)
