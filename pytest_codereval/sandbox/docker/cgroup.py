"""Which processes are in a container, seen from outside by its control group."""

from __future__ import annotations

import functools
from pathlib import Path


def processes_in(pid: int, uid: int) -> list[int] | None:
    """The ids of the processes of user `uid` in the control group of process `pid`; None when it cannot be read."""
    try:
        for controller, path in _groups(pid):
            folder = _mounted().get(controller)
            if folder is not None and (listed := Path(f"{folder}{path}/cgroup.procs")).is_file():
                found = [int(line) for line in listed.read_text(encoding="ascii").split()]
                return [each for each in found if each > 0 and _is_of_user(each, uid)]
    except (OSError, ValueError):
        return None
    return None


def _groups(pid: int) -> list[tuple[str, str]]:
    """The controllers that tell of processes and the group's path in each, the best first; "" is the one hierarchy."""
    lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").splitlines()
    found = {name: path for line in lines for names, path in [_parts(line)] for name in names.split(",")}
    return [(name, found[name]) for name in ("pids", "memory", "") if name in found]


def _parts(line: str) -> tuple[str, str]:
    _, names, path = line.split(":", 2)
    return names, path


@functools.cache
def _mounted() -> dict[str, str]:
    """Where the hierarchy of each controller is mounted whole."""
    found: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        before, _, behind = line.partition(" - ")
        root, folder = before.split()[3:5]
        kind, _, options = behind.split()[:3]
        if root == "/" and kind == "cgroup2":
            found.setdefault("", folder)
        elif root == "/" and kind == "cgroup":
            for option in options.split(","):
                found.setdefault(option, folder)
    return found


def _is_of_user(pid: int, uid: int) -> bool:
    """Whether a process that has not ended runs as this user."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    has_ended = fields["State"].split()[0] in ("Z", "X") and int(fields.get("Threads", "1")) <= 1
    return not has_ended and str(uid) in fields["Uid"].split()
