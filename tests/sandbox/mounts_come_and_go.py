"""Asks again and again whether bubblewrap works while mounts come and go on the disk, as those of containers do.

To be run in a mount namespace of its own, by root. Prints each reason for which it was not to be had.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import tempfile
from multiprocessing.synchronize import Event
from pathlib import Path

from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.bubblewrap import tools

_MOUNTS = 30
_ASKED = 25


def come_and_go(folder: str, enough: Event) -> None:
    """What has been a mount is removed at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    while not enough.is_set():
        places = [Path(folder, str(number)) for number in range(_MOUNTS)]
        for place in places:
            place.mkdir()
            assert libc.mount(b"none", bytes(place), b"tmpfs", 0, None) == 0, os.strerror(ctypes.get_errno())
        for place in places:
            libc.umount2(bytes(place), 0)
            place.rmdir()


def main() -> None:
    """Ask, with a fresh answer each time."""
    forking = multiprocessing.get_context("fork")
    enough = forking.Event()
    with tempfile.TemporaryDirectory() as folder:
        busy = forking.Process(target=come_and_go, args=(folder, enough))
        busy.start()
        try:
            for _ in range(_ASKED):
                tools.availability.cache_clear()
                found = drivers.driver("bubblewrap").availability()
                if not found.usable:
                    print(found.reason)
        finally:
            enough.set()
            busy.join()
        print("ended with", busy.exitcode)


if __name__ == "__main__":
    main()
