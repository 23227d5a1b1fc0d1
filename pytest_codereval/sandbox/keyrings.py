"""The kernel's keyrings of a user: they outlive his processes, so that one trial could leave notes for the next."""

from __future__ import annotations

import ctypes
import os
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

_KEYCTL_CLEAR, _KEYCTL_GET_PERSISTENT = 7, 22
_OF_PROCESS, _OF_USER, _OF_SESSIONS = -2, -4, -5
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4


def can_clear() -> bool:
    """Whether `clear_keyrings` knows the system calls of this machine."""
    return os.uname().machine in _NUMBERS


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
