"""Stops the processes of a container for a moment, so that none of them can reach what is being set up beside them."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ... import clock
from ...errors import Cause, TrialError

PATIENCE = 5.0
"""Seconds after which processes that go on making others are given up."""

_PAUSE = 0.0005


@contextlib.contextmanager
def standing_still(processes: Callable[[], list[int] | None]) -> Iterator[None]:
    """Have what `processes` lists stopped until the block is left, and go on then. None: they cannot be seen.

    Raises TrialError(TAMPERED) when they make new ones faster than these can be stopped.
    """
    stopped: dict[int, int] = {}
    try:
        deadline = clock.monotonic() + PATIENCE
        while running := [pid for pid in processes() or () if not _is_stopped(pid)]:
            if clock.monotonic() > deadline:
                raise TrialError(Cause.TAMPERED, "the agent's processes multiply faster than they can be stopped")
            _stop(running, processes, stopped)
            time.sleep(_PAUSE)
        yield
    finally:
        for descriptor in stopped.values():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(descriptor, signal.SIGCONT)
            os.close(descriptor)


def _stop(running: list[int], processes: Callable[[], list[int] | None], stopped: dict[int, int]) -> None:
    """Stop these processes if they are still the same ones once a descriptor of each is held."""
    for pid in running:
        if pid not in stopped:
            with contextlib.suppress(OSError):
                stopped[pid] = os.pidfd_open(pid)
    there = set(processes() or ())
    for pid in running:
        if pid in stopped and pid in there:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(stopped[pid], signal.SIGSTOP)


def _is_stopped(pid: int) -> bool:
    """Whether no thread of a process runs, or it has ended."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return True
    return all(_state(thread) in ("T", "t", "Z", "X") for thread in threads)


def _state(thread: Path) -> str:
    try:
        return (thread / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return "X"
