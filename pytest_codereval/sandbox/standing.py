"""What a process hands on to those that it starts, limits and priorities, and which others of its user can change."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LIMITS = {name: getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")}
_OOM_SCORE = Path("/proc/self/oom_score_adj")


def standing(thread: int = 0) -> dict[str, Any]:
    """The limits of this process, its out-of-memory score, priority, scheduler and processors of a thread (0: this)."""
    found: dict[str, Any] = {name: resource.getrlimit(number) for name, number in _LIMITS.items()}
    with contextlib.suppress(OSError):
        found["oom_score_adj"] = _OOM_SCORE.read_bytes()
    with contextlib.suppress(OSError):
        found["nice"] = os.getpriority(os.PRIO_PROCESS, thread)
    if hasattr(os, "sched_getaffinity"):
        with contextlib.suppress(OSError):
            found["scheduler"] = os.sched_getscheduler(thread)
            found["affinity"] = os.sched_getaffinity(thread)
    return found


def thread_ids() -> list[int]:
    """The threads of this process, where the system tells them."""
    try:
        return [int(entry.name) for entry in Path("/proc/self/task").iterdir()]
    except OSError:
        return [0]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of what differs."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def restore(before: Mapping[str, Any]) -> None:
    """Set this process and this thread back, as far as that is permitted; limits first, as the rest needs them."""
    for name, number in _LIMITS.items():
        with contextlib.suppress(OSError, ValueError):
            if resource.getrlimit(number) != before[name]:
                resource.setrlimit(number, before[name])
    changed = changes(before, standing())
    with contextlib.suppress(OSError, KeyError):
        if "nice" in changed:
            os.setpriority(os.PRIO_PROCESS, 0, before["nice"])
    with contextlib.suppress(OSError, KeyError):
        if "oom_score_adj" in changed:
            _OOM_SCORE.write_bytes(before["oom_score_adj"])
    with contextlib.suppress(OSError, KeyError):
        if "scheduler" in changed:
            os.sched_setscheduler(0, before["scheduler"], os.sched_param(0))
    with contextlib.suppress(OSError, KeyError):
        if "affinity" in changed:
            os.sched_setaffinity(0, before["affinity"])
