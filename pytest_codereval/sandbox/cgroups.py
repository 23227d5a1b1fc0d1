"""Control groups that bound what the processes of one sandbox take together, where the harness may make them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError

if TYPE_CHECKING:
    from ..task.sandbox_models import ResourceLimits

MOUNT = Path("/sys/fs/cgroup")
_PREFIX = "codereval"
_NAME = re.compile(rf"{_PREFIX}-(\d+)-(\d+)-\d+")
_PERIOD = 100_000
_PATIENCE = 2.0


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds for all processes of a sandbox together: memory in bytes, processes and threads, processors."""

    memory: int | None = None
    pids: int | None = None
    cpus: float | None = None


@dataclasses.dataclass(frozen=True)
class Group:
    """The control groups of one sandbox, one for each hierarchy; `bounded` names the limits that they hold."""

    folders: tuple[Path, ...] = ()
    bounded: frozenset[str] = frozenset()

    @property
    def joins(self) -> tuple[Path, ...]:
        """The files to which a process with one thread writes 0 in order to be bounded, it and all that it starts.

        With version 1 it joins as a thread, because for a process as such the kernel waits some 10 ms.
        """
        return tuple(file if file.exists() else file.with_name("cgroup.procs") for file in self._tasks)

    @property
    def _tasks(self) -> tuple[Path, ...]:
        return tuple(folder / "tasks" for folder in self.folders)

    def remove(self) -> tuple[str, ...]:
        """Remove them once their processes are dead; those that could not be removed. May be called twice."""
        deadline = time.monotonic() + _PATIENCE
        return tuple(str(folder) for folder in self.folders if not _removed(folder, deadline))


NO_GROUP = Group()


def asked_limits(limits: ResourceLimits) -> Limits:
    """The bounds that a task asks for by name."""
    memory = limits.max_memory_mb << 20 if limits.max_memory_mb is not None else None
    return Limits(memory, limits.max_pids, limits.max_cpus)


def refuse_unbounded(limits: ResourceLimits, group: Group, driver: str, *, held: Collection[str] = ()) -> None:
    """Raises TrialError(SANDBOX) for a limit that the task asks for and that the group does not hold.

    `held` are those that the driver holds by other means.
    """
    for key, limit in (("max_memory_mb", "memory"), ("max_pids", "pids"), ("max_cpus", "cpu")):
        if getattr(limits, key) is not None and limit not in {*group.bounded, *held}:
            raise TrialError(
                Cause.SANDBOX,
                f"sandbox.limits.{key} cannot be applied by the driver {driver}: this user may make no control group "
                f"for it; run as root, or use the driver docker",
            )


_numbers = itertools.count(1)
_swept: set[Path] = set()


def make_group(limits: Limits) -> Group:
    """Control groups for one sandbox, as far as this user may make them; those without any bound nothing."""
    name = f"{_PREFIX}-{os.getpid()}-{_start_of(os.getpid())}-{next(_numbers)}"
    folders: dict[Path, None] = {}
    bounded = set()
    for limit, settings in _settings(limits).items():
        for parent in _parents(limit):
            if (folder := _bounding(parent, name, settings, folders)) is not None:
                folders[folder] = None
                bounded.add(limit)
                break
    return Group(tuple(folders), frozenset(bounded))


def _settings(limits: Limits) -> Mapping[str, Mapping[str, str]]:
    """What is written into which file of a group, for either version; files that are not there are passed over."""
    found: dict[str, Mapping[str, str]] = {}
    if limits.memory is not None:
        memory = str(limits.memory)
        found["memory"] = {
            "memory.limit_in_bytes": memory,
            "memory.memsw.limit_in_bytes": memory,
            "memory.max": memory,
            "memory.swap.max": "0",
        }
    if limits.pids is not None:
        found["pids"] = {"pids.max": str(limits.pids)}
    if limits.cpus is not None:
        quota = str(max(1000, int(limits.cpus * _PERIOD)))
        found["cpu"] = {
            "cpu.cfs_period_us": str(_PERIOD),
            "cpu.cfs_quota_us": quota,
            "cpu.max": f"{quota} {_PERIOD}",
        }
    return found


_NEEDED = {
    "memory": ("memory.limit_in_bytes", "memory.max"),
    "pids": ("pids.max",),
    "cpu": ("cpu.cfs_quota_us", "cpu.max"),
}


def _bounding(parent: Path, name: str, settings: Mapping[str, str], made: Mapping[Path, None]) -> Path | None:
    """The group in `parent`, made if needed, with the settings; None when this user or the parent does not allow it."""
    _sweep(parent)
    folder = parent / name
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        present = [file for file in settings if (folder / file).exists()]
        needed = next(files for files in _NEEDED.values() if any(file in settings for file in files))
        if any(file in present for file in needed) and os.access(folder / "cgroup.procs", os.W_OK):
            for file in present:
                (folder / file).write_text(settings[file], encoding="ascii")
            return folder
    if folder not in made:
        with contextlib.suppress(OSError):
            folder.rmdir()
    return None


def _parents(limit: str) -> Iterator[Path]:
    """Where a group for a limit may be made, best first.

    With version 1 below the group of this process, with version 2 beside it, as one that has processes cannot have
    groups that are bounded, else at the top.
    """
    for controllers, path in _own_groups():
        if limit in controllers:
            yield _hierarchy(limit) / path.lstrip("/")
            yield _hierarchy(limit)
    for controllers, path in _own_groups():
        if controllers == [""]:
            top = MOUNT if (MOUNT / "cgroup.controllers").exists() else MOUNT / "unified"
            if path != "/":
                yield (top / path.lstrip("/")).parent
            yield top


def _hierarchy(limit: str) -> Path:
    return next((path for name in (limit, "cpu,cpuacct") if (path := MOUNT / name).is_dir()), MOUNT / limit)


def _own_groups() -> list[tuple[list[str], str]]:
    """The controllers and the group of this process for each hierarchy, as in cgroups(7)."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    parts = [line.split(":", 2) for line in lines]
    return [(part[1].split(","), part[2]) for part in parts if len(part) == 3]


def _sweep(parent: Path) -> None:
    """Remove the groups of harnesses that are dead, once per place."""
    if parent in _swept:
        return
    _swept.add(parent)
    for folder in parent.glob(f"{_PREFIX}-*"):
        found = _NAME.fullmatch(folder.name)
        if found is not None and _start_of(int(found[1])) != int(found[2]):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _start_of(pid: int) -> int:
    """When a process started, in ticks since the system did; 0 when there is none."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return 0


def _removed(folder: Path, deadline: float, pause: Callable[[float], None] = time.sleep) -> bool:
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            if time.monotonic() > deadline:
                return False
            pause(0.002)
        else:
            return True
