"""What a driver has to make: places where processes run, each with a view of its own of the disk and the network."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Literal, Protocol

from .protocol import ProcessResult
from .supervision import Command

MOST_PROCESSES = 2048
"""Processes and threads of a sandbox where the task says nothing."""

MEMORY_SHARE = 0.75
"""The same for its part of the memory of this machine."""

NetworkKind = Literal["none", "shared", "allow"]


@dataclasses.dataclass(frozen=True)
class Network:
    """What can be reached: nothing, all that the harness (or the bridge of containers) reaches, or what is `allowed`.

    `allowed` holds pairs of host name and port.
    """

    kind: NetworkKind = "shared"
    allowed: tuple[tuple[str, int], ...] = ()


@dataclasses.dataclass(frozen=True)
class Mount:
    """A file or directory of the harness's disk, and by which path processes see it."""

    source: Path
    target: Path
    writable: bool = False


@dataclasses.dataclass(frozen=True)
class View:
    """What the processes of one environment see beside the system. Later mounts lie over earlier ones.

    `hidden` paths are not visible, whatever else is. `shims` are laid over the programs of these names, wherever they
    lie in the system. `cwd` is where commands start. `ports` are those of 127.0.0.1 where the harness serves the
    processes, whatever their network.
    """

    cwd: Path
    mounts: tuple[Mount, ...] = ()
    hidden: tuple[Path, ...] = ()
    shims: Mapping[str, Path] = dataclasses.field(default_factory=dict)
    network: Network = Network()
    ports: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True)
class Owner:
    """User and group that the processes of a sandbox run as, where it is not the harness's own user."""

    uid: int
    gid: int


class Enclosure(Protocol):
    """The processes of one environment. Made when first needed; nothing of it outlives `end`."""

    def run(self, command: Command) -> ProcessResult:
        """See `protocol.Sandbox.run`. Raises TrialError when the environment itself failed."""

    def stream(self, command: Command, wake: int | None) -> Generator[bytes, None, ProcessResult]:
        """See `protocol.Sandbox.stream`."""

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
        """A listening TCP socket at a loopback address as the processes of this environment see it.

        The caller closes it. Raises TrialError(SANDBOX) where that cannot be had.
        """

    def make_ready(self) -> None:
        """Start what the first command would wait for. Raises TrialError."""

    def abort(self) -> None:
        """Kill what works here, from another thread than the one that waits for it; `end` still has to follow."""

    def end(self) -> None:
        """Kill every process that was started here, however it daemonised, and prove that none lives.

        May be called twice. Raises TrialError(TAMPERED) when the harness's own processes were attacked, and
        TrialError(SANDBOX) when processes outlive SIGKILL.
        """
