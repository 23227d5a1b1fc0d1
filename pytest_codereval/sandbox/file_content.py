"""Copies the content of files, holes as holes, without bringing it through this process where that can be."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable

_SMALL = 1 << 16
_CHUNK = 1 << 20
_AT_ONCE = 1 << 30
_NOT_POSSIBLE = (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF)

See = Callable[[bytes], object]


def copy_content(source: int, target: int, size: int, allocated: int) -> None:
    """Copy a file of `size` bytes, `allocated` of them on the disk, from its start to an empty one. Raises OSError."""
    if size <= _SMALL:
        write_all(target, _read(source, size))
    elif allocated < size:
        _copy_data(source, target, size)
    else:
        _copy_range(source, target, 0, size)


def copy_seen(source: int, target: int, limit: int, see: See) -> int:
    """Copy at most `limit` bytes, each piece shown to `see`; their number. Raises OSError."""
    size = 0
    while chunk := os.read(source, min(_CHUNK, limit - size)):
        see(chunk)
        size += len(chunk)
        write_all(target, chunk)
    return size


def write_all(file: int, data: bytes) -> None:
    """Write all bytes. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _read(source: int, size: int) -> bytes:
    data = os.read(source, size)
    while len(data) < size and (more := os.read(source, size - len(data))):
        data += more
    return data


def _copy_data(source: int, target: int, size: int) -> None:
    """Copy what is no hole."""
    at = 0
    while at < size:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
            end = min(os.lseek(source, begin, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break
            if error.errno not in _NOT_POSSIBLE:
                raise
            begin, end = at, size
        _copy_range(source, target, begin, end)
        at = end
    os.ftruncate(target, size)


def _copy_range(source: int, target: int, begin: int, end: int) -> None:
    at = begin
    while at < end:
        try:
            copied = _in_kernel(source, target, min(end - at, _AT_ONCE), at)
        except OSError as error:
            if error.errno not in _NOT_POSSIBLE:
                raise
            copied = _copy_through(source, target, at, min(end - at, _CHUNK))
        if not copied:
            return
        at += copied


def _in_kernel(source: int, target: int, size: int, at: int) -> int:
    if not hasattr(os, "copy_file_range"):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return os.copy_file_range(source, target, size, at, at)


def _copy_through(source: int, target: int, at: int, size: int) -> int:
    data = os.pread(source, size, at)
    view = memoryview(data)
    while view:
        view = view[os.pwrite(target, view, at + len(data) - len(view)) :]
    return len(data)
