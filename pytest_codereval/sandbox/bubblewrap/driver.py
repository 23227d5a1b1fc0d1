"""The `bubblewrap` driver: a directory of the trial's own, its processes in namespaces of their own."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import Cause, TrialError
from .. import registry
from ..cgroups import NO_GROUP, Limits, asked_limits, make_group, refuse_unbounded
from ..directory import DirectorySandbox
from ..drivers import Availability, Isolation, Order
from ..enclosure import MEMORY_SHARE, MOST_PROCESSES, Network, Owner, View
from ..environment import SearchPath
from ..exposure import HostPrograms, exposed
from ..gate import addresses
from ..network import network_of
from ..ownership import AGENT, claim
from ..protocol import Phase, ProcessResult
from ..tempdir import KeptProcesses, host_basics, host_search_path, run_host_tool
from ..withholding import Withheld
from .account import account
from .entry import sealed
from .launch import Launch
from .mounts import Base, plan
from .processes import DirectProcesses, HeldProcesses
from .system_files import ACCOUNT, system_files
from .tools import Tools, availability, find_tools, isolating_options

_PLACES_IN_MEMORY = 4


class BubblewrapDriver:
    """Namespaces of Linux made by bwrap: no daemon, no image, the programs of this machine."""

    name = "bubblewrap"
    isolation = Isolation.BUBBLEWRAP

    def availability(self, order: Order | None = None) -> Availability:
        """See `drivers.Driver.availability`."""
        return availability(_owner(), os.environ.get("PATH", ""))

    def create(self, order: Order) -> DirectorySandbox:
        """See `drivers.Driver.create`."""
        found = self.availability(order)
        tools = find_tools()
        if not found.usable or isinstance(tools, str):
            raise TrialError(Cause.SANDBOX, f"the driver {self.name!r} cannot be had: {found.reason}")
        place = registry.registry(order.root_parent, avoid=Withheld(order.environments.withhold))
        root = place.new_root()
        try:
            system = BubblewrapSystem(place, root, order, tools)
        except BaseException:
            root.rmdir()
            raise
        return DirectorySandbox(place, order, system, root)


class BubblewrapSystem:
    """The programs of this machine and nothing else of it. See `directory.System`."""

    driver = BubblewrapDriver.name
    shim_shell: str | None = None
    python = sys.executable
    can_mount = True

    def __init__(self, place: registry.Registry, root: Path, order: Order, tools: Tools) -> None:
        self._place = place
        self._root = root
        self._tools = tools
        self._readable = order.readable
        self.search_path: SearchPath = host_search_path()
        self.network: Network = network_of(order.config, shared_by_default=False)
        self.own_network = self.network.kind != "shared"
        limits = _limits(order)
        self._shared_memory = limits.memory // _PLACES_IN_MEMORY if limits.memory is not None else None
        self._opened: list[int] = []
        self._claim = claim(place.home.parent) if os.geteuid() == 0 else None
        self.owner = self._claim.owner if self._claim is not None else None
        self._group = NO_GROUP
        try:
            self._group = make_group(limits)
            bounded = self._group.bounded
            self._most_processes = limits.pids if "pids" not in bounded else None
            refuse_unbounded(order.config.limits, self._group, self.driver, held=("pids",))
            self._files = system_files(place.home / "system", self.owner)
        except BaseException:
            self.close()
            raise
        held = {*bounded, *(["nproc"] if self._most_processes is not None else [])}
        self.variables: Mapping[str, str] = _variables(self.owner)
        self.described: Mapping[str, object] = account(self.owner, self.network, limits, held)

    def enclose(self, phase: Phase, view: View) -> DirectProcesses | HeldProcesses:
        """See `directory.System.enclose`."""
        try:
            options = sealed("options", self._options(view))
        except OSError as error:
            raise TrialError(Cause.SANDBOX, f"no sandbox can be made: {error}") from error
        self._opened.append(options)
        launch = Launch(
            self._tools,
            self.owner,
            options,
            own_network=view.network.kind != "shared",
            joins=self._group.joins,
            most_processes=self._most_processes,
        )
        kept = KeptProcesses(self._place, self._root, watched=False)
        return (HeldProcesses if phase is Phase.AGENT else DirectProcesses)(kept, launch)

    def _options(self, view: View) -> bytes:
        """The options of bwrap as it reads them from a file."""
        folders = self.search_path.folders
        base = Base(self._files, (*exposed(folders), *self._readable), folders, self._shared_memory)
        mounts = plan(base, view, hosts=addresses(view.network.allowed))
        own_network = view.network.kind != "shared"
        options = [*isolating_options(self.owner, network=own_network), *mounts]
        return b"".join(os.fsencode(option) + b"\0" for option in options)

    def run_tool(self, argv: Sequence[str], cwd: Path, timeout: float) -> ProcessResult:
        """See `directory.System.run_tool`. On this machine, as the harness's user, before the sandbox is used."""
        return run_host_tool(self._place, self._root, argv, cwd, timeout)

    def seed(self, workspace: Path) -> Sequence[str]:
        """See `directory.System.seed`."""
        return ()

    def host_path_of(self, path: str) -> str:
        """See `directory.System.host_path_of`."""
        return path

    def holds(self, path: str) -> bool:
        """See `directory.System.holds`."""
        return HostPrograms(self.search_path.folders).holds(path)

    def close(self) -> None:
        """See `directory.System.close`."""
        while self._opened:
            os.close(self._opened.pop())
        self._group.remove()
        if self._claim is not None:
            self._claim.release()


def _owner() -> Owner | None:
    return AGENT if os.geteuid() == 0 else None


def _variables(owner: Owner | None) -> dict[str, str]:
    variables = host_basics()
    if owner is not None:
        variables |= {"USER": ACCOUNT, "LOGNAME": ACCOUNT}
    return variables


def _limits(order: Order) -> Limits:
    found = asked_limits(order.config.limits)
    memory = found.memory or int(_memory() * MEMORY_SHARE) or None
    return dataclasses.replace(found, memory=memory, pids=found.pids or MOST_PROCESSES)


def _memory() -> int:
    """Bytes of memory of this machine; 0 when that is unknown."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0
