"""Telling whether a file or directory is the one that it was, and whether anybody touched it in between."""

from __future__ import annotations

from pathlib import Path


def identity(path: Path) -> tuple[int, int, int]:
    """Device, inode and mode of what is at `path`; a link is not followed. Raises OSError."""
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mode


def state(path: Path) -> tuple[int, ...]:
    """The identity with size and times of change, in nanoseconds.

    It changes also when content is restored, when a file or directory is moved aside and back, and when permissions
    are set to what they are; reading and running change nothing. Raises OSError.
    """
    status = path.lstat()
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns
