"""One container: what it is made with, its start, its end, and whether it lives."""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import os
import re
import select
import socket
import time
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ... import clock
from ...errors import Cause, TrialError
from ..enclosure import MEMORY_SHARE, MOST_PROCESSES, Owner
from ..registry import Registry
from .cgroup import processes_in
from .engine import Daemon, Engine, EngineError, client, explanation, status_of, told
from .leftovers import sweep_once
from .turns import turn

if TYPE_CHECKING:
    from ...task.models import ResourceLimits


REMOVE_PATIENCE = 120.0
"""Seconds that a daemon gets for removing a container."""

LOST_PATIENCE = 5.0
"""Seconds after which a daemon that cannot be reached at all is given up."""

_KEEPER = "while read -r _; do :; done"
"""What the first process does: nothing, until its standard input, which the harness holds, ends."""

_PAUSE = 0.005
_MB = 1 << 20
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]+")
_NOT_APPLIED = re.compile(r"not support|discarded|without", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a container may take at most: bytes, processors (None: all), processes."""

    memory: int
    cpus: float | None
    pids: int
    temporary: int
    """Bytes of each folder for temporary files, which count as memory."""

    @classmethod
    def of(cls, asked: ResourceLimits, daemon: Daemon) -> Limits:
        """Those that a task asks for, else the default ones."""
        memory = asked.max_memory_mb * _MB if asked.max_memory_mb else int(daemon.memory * MEMORY_SHARE)
        temporary = memory // 4
        if asked.max_disk_mb:
            temporary = min(temporary, asked.max_disk_mb * _MB)
        return cls(
            memory=memory,
            cpus=min(float(asked.max_cpus), float(daemon.processors)) if asked.max_cpus else None,
            pids=asked.max_pids or MOST_PROCESSES,
            temporary=temporary,
        )


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a container is made with. `shell` runs shell text in it; `hosts` are names and their addresses."""

    image: str
    shell: Sequence[str]
    labels: Mapping[str, str]
    mounts: Sequence[Mapping[str, Any]]
    limits: Limits
    network: str
    hosts: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def described(self, daemon: Daemon) -> dict[str, Any]:
        """As the engine's API wants it."""
        return {
            "Image": self.image,
            "Entrypoint": [*self.shell, "-c", _KEEPER],
            "Cmd": [],
            "User": "0:0",
            "WorkingDir": "/",
            "Hostname": "sandbox",
            "Labels": dict(self.labels),
            "OpenStdin": True,
            "StdinOnce": True,
            "AttachStdin": True,
            "Healthcheck": {"Test": ["NONE"]},
            "HostConfig": {
                **_fences(daemon),
                **_bounds(self.limits, daemon),
                "NetworkMode": self.network,
                "ExtraHosts": [f"{host}:{address}" for host, address in self.hosts.items()],
                "Mounts": [dict(mount) for mount in self.mounts],
            },
        }


def _fences(daemon: Daemon) -> dict[str, Any]:
    options = ["no-new-privileges"]
    if any(each.startswith("name=selinux") for each in daemon.security):
        options.append("label=disable")
    return {
        "AutoRemove": True,
        "Init": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": options,
        "ReadonlyRootfs": True,
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "LogConfig": {"Type": "none"},
    }


def _bounds(limits: Limits, daemon: Daemon) -> dict[str, Any]:
    tmpfs = f"rw,exec,nosuid,nodev,mode=1777,size={limits.temporary}"
    found: dict[str, Any] = {
        "Tmpfs": dict.fromkeys(("/tmp", "/run", "/var/tmp"), tmpfs),
        "ShmSize": min(64 * _MB, limits.temporary),
        "PidsLimit": limits.pids,
        "Memory": limits.memory,
        "Ulimits": [{"Name": "core", "Soft": 0, "Hard": 0}],
    }
    if "swap" in daemon.limits:
        found["MemorySwap"] = limits.memory
    if limits.cpus is not None:
        found["NanoCpus"] = int(limits.cpus * 1_000_000_000)
    return found


def name_of(*parts: str) -> str:
    """The name of a container, of these parts."""
    return "-".join(["codereval", *(_NOT_IN_NAMES.sub("_", part) for part in parts if part)])[:200]


_holding: weakref.WeakSet[Container] = weakref.WeakSet()


class Container:
    """A container that runs until `remove`, or until the harness dies."""

    def __init__(self, daemon: Daemon, place: Registry, name: str, setting: Setting) -> None:
        self.daemon = daemon
        self.engine = Engine(daemon.socket, daemon.api_version)
        self.name = name
        self.setting = setting
        self.id = ""
        self.pid = 0
        self._place = place
        self._input: socket.socket | None = None
        self._pidfd: int | None = None
        self._begun = 0.0

    def start(self) -> None:
        """Make and start it, leftovers of dead harnesses having been removed. Raises TrialError(SANDBOX)."""
        with told("looking for leftovers"):
            sweep_once(self.daemon, self._place)
        try:
            with turn(self._place), told("starting a container"):
                self._start()
        except BaseException:
            with contextlib.suppress(TrialError):
                self.remove()
            raise
        _holding.add(self)

    def _start(self) -> None:
        api = client(self.daemon)
        self._begun = clock.now()
        made = api.create_container_from_config(self.setting.described(self.daemon), self.name)
        self.id = made["Id"]
        for warning in made.get("Warnings") or ():
            if _NOT_APPLIED.search(warning):
                raise TrialError(Cause.SANDBOX, f"a limit of the container cannot be set: {warning}")
        self._input = self.engine.attach_input(self.id)
        api.start(self.id)
        state = api.inspect_container(self.id)["State"]
        if not state["Running"]:
            raise TrialError(Cause.SANDBOX, f"the container ended at once: {state.get('Error') or state['ExitCode']}")
        self.pid = state["Pid"]
        self._pidfd = self.open_process(self.pid)
        _spare(self.pid)

    def open_process(self, pid: int) -> int | None:
        """A descriptor that is readable once a process of the container has ended; None where it cannot be seen.

        Raises ProcessLookupError when it has ended already.
        """
        if not self.is_seen:
            return None
        return os.pidfd_open(pid)

    @property
    def is_seen(self) -> bool:
        """Whether its processes have the ids that the daemon tells, as the harness sees them."""
        return _is_of_container(self.pid, self.id)

    def start_in(self, arguments: Sequence[str], user: Owner, variables: Sequence[str] = ()) -> str:
        """Start the shell with these arguments, without streams; what the daemon calls it. Raises as `Engine.call`."""
        asked = {
            "Cmd": [*self.setting.shell, *arguments],
            "User": f"{user.uid}:{user.gid}",
            "Env": list(variables),
            "WorkingDir": "/",
        }
        made = str(self.engine.call("POST", f"/containers/{self.id}/exec", asked)["Id"])
        self.engine.call("POST", f"/exec/{made}/start", {"Detach": True, "Tty": False})
        return made

    def look_at(self, started: str) -> Mapping[str, Any]:
        """What the daemon says of what was started: Running, Pid and ExitCode. Raises as `Engine.call` does."""
        found: Mapping[str, Any] = self.engine.call("GET", f"/exec/{started}/json")
        return found

    def is_dead_within(self, seconds: float) -> bool:
        """Whether it runs no longer, or ends in this time. Raises TrialError(SANDBOX) when the daemon does not say."""
        if self._pidfd is not None:
            return bool(select.select([self._pidfd], [], [], seconds)[0])
        if not self.id:
            return True
        with told("looking at a container"):
            try:
                return not self.engine.call("GET", f"/containers/{self.id}/json")["State"]["Running"]
            except EngineError as error:
                if error.status == 404:
                    return True
                raise

    def processes_of(self, uid: int) -> list[int] | None:
        """The ids, as the harness sees them, of a user's processes in it; None when they cannot be seen."""
        if not self.is_seen:
            return None
        return processes_in(self.pid, uid)

    def loss(self) -> TrialError:
        """Why it runs no longer, from what the daemon remembers."""
        until = int(clock.now()) + 1
        asked = f'{{"container":["{self.id}"]}}'.replace('"', "%22")
        url = f"/events?since={int(self._begun)}&until={until}&filters={asked}"
        try:
            told_of = self.engine.read("GET", url, timeout=10.0).decode("utf-8", "replace")
        except Exception as error:
            return TrialError(Cause.SANDBOX, f"the container is gone, and the Docker daemon does not say why: {error}")
        if '"Action":"oom"' in told_of or '"status":"oom"' in told_of:
            return TrialError(
                Cause.SANDBOX, f"the container ended: it took more than {self.setting.limits.memory} bytes"
            )
        how = "somebody killed it" if '"status":"kill"' in told_of else "its first process ended"
        return TrialError(Cause.SANDBOX, f"the container ended while it was in use: {how}")

    def kill(self) -> None:
        """Kill everything in it, from any thread."""
        with contextlib.suppress(EngineError, OSError, ValueError, http.client.HTTPException):
            self.engine.call("POST", f"/containers/{self.id}/kill")

    def remove(self) -> None:
        """Kill everything in it, remove it and prove that it is gone. May be called twice.

        Raises TrialError(SANDBOX).
        """
        try:
            with turn(self._place):
                self._remove()
        finally:
            _holding.discard(self)
            self._let_go()

    def _remove(self) -> None:
        begin = clock.monotonic()
        while True:
            try:
                client(self.daemon).remove_container(self.name, force=True, v=True)
            except Exception as error:
                reason, status = explanation(error), status_of(error)
                if status == 404:
                    return
                if status is None and not isinstance(error, OSError):
                    raise
            else:
                reason, status = "it is still there", 200
            patience = REMOVE_PATIENCE if status is not None else LOST_PATIENCE
            if clock.monotonic() > begin + patience:
                raise TrialError(Cause.SANDBOX, f"the container {self.name} cannot be removed: {reason}")
            time.sleep(_PAUSE)

    def _let_go(self) -> None:
        if self._input is not None:
            self._input.close()
            self._input = None
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None

    def forget(self) -> None:
        """Close in a forked copy of this process what keeps the container alive."""
        self._let_go()


def _is_of_container(pid: int, container: str) -> bool:
    """Whether the process of this id, as the harness counts them, is that of the container."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="ascii", errors="replace") as file:
            return container in file.read()
    except OSError:
        return False


def _spare(pid: int) -> None:
    """Have the kernel end anything else first when memory is short, where the harness is root."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
        file.write("-999")


def _forget_after_fork() -> None:
    for container in tuple(_holding):
        container.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
