"""Asks again and again whether bubblewrap works while mounts come and go on the disk, as those of containers do.

To be run in a mount namespace of its own, by root. Prints each reason for which it was not to be had.
"""

from __future__ import annotations

import ctypes
import itertools
import multiprocessing
import os
import tempfile
from pathlib import Path

from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.bubblewrap import tools

_MOUNTS = 30
_ASKED = 25


def come_and_go(folder: str, ends: int) -> None:
    """Until the other side of the pipe `ends` is closed; what has been a mount is removed at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.set_blocking(ends, False)
    for turn in itertools.count():
        places = [Path(folder, f"{turn}-{number}") for number in range(_MOUNTS)]
        for place in places:
            place.mkdir()
            assert libc.mount(b"none", bytes(place), b"tmpfs", 0, None) == 0, os.strerror(ctypes.get_errno())
        for place in places:
            libc.umount2(bytes(place), 0)
            place.rmdir()
        try:
            if os.read(ends, 1) == b"":
                return
        except BlockingIOError:
            continue


def main() -> None:
    """Ask, with a fresh answer each time."""
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory() as folder:
        busy = multiprocessing.get_context("fork").Process(target=_apart, args=(folder, reading, writing))
        busy.start()
        try:
            for _ in range(_ASKED):
                tools.availability.cache_clear()
                found = drivers.driver("bubblewrap").availability()
                if not found.usable:
                    print(found.reason)
        finally:
            os.close(writing)
            busy.join()
        print("ended with", busy.exitcode)


def _apart(folder: str, reading: int, writing: int) -> None:
    os.close(writing)
    come_and_go(folder, reading)


if __name__ == "__main__":
    main()
