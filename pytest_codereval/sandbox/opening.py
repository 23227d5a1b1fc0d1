"""Opening files in a tree that an agent wrote without being led out of it (openat2)."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
from pathlib import Path

NO_MOUNTS = 1
NO_MAGIC_LINKS = 2
NO_LINKS = 4
BENEATH = 8

_OPENAT2 = 437
_O_PATH = getattr(os, "O_PATH", os.O_RDONLY)


class _How(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


_libc = ctypes.CDLL(None, use_errno=True)


def open_at(folder: int, path: str, flags: int, resolve: int, mode: int = 0) -> int:
    """Open `path` below the directory descriptor `folder`. `resolve` adds up what is refused on the way; `mode` is that
    of a new file.

    Raises OSError: EXDEV for a link or mount that leads out, ELOOP for a refused link, ENOSYS where there is no such
    call, EPERM where it is filtered; ValueError for a NUL byte.
    """
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte")
    if not hasattr(os, "O_PATH"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), path)
    how = _How(flags | os.O_CLOEXEC, mode, resolve)
    for _ in range(32):
        descriptor: int = _libc.syscall(
            _OPENAT2, ctypes.c_int(folder), name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number != errno.EAGAIN:
            raise OSError(number, os.strerror(number), path)
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def open_entry(folder: int, name: str, flags: int) -> int:
    """Open an entry of a directory that is neither a link nor, where the system can tell, a mount. Raises OSError."""
    try:
        return open_at(folder, name, flags, BENEATH | NO_LINKS | NO_MOUNTS)
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EPERM):
            raise
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)


def let_owner_in(parent: int, name: str) -> None:
    """Give the owner of a folder, an entry of `parent`, all permissions there, where that is possible. Links stay."""
    with contextlib.suppress(OSError):
        mode = os.lstat(name, dir_fd=parent).st_mode
        if stat.S_ISDIR(mode) and mode & stat.S_IRWXU != stat.S_IRWXU:
            _change_mode(parent, name, stat.S_IMODE(mode) | stat.S_IRWXU)


def _change_mode(parent: int, name: str, mode: int) -> None:
    handle = os.open(name, _O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        Path(f"/proc/self/fd/{handle}").chmod(mode)
    except FileNotFoundError:
        os.chmod(name, mode, dir_fd=parent)
    finally:
        os.close(handle)
