"""The `tempdir` driver: a temporary directory of the trial's own, its processes owned by a supervisor."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import socket
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..errors import Cause, TrialError
from . import landlock, process, registry, supervision
from .cgroups import NO_GROUP, Group, asked_limits, make_group, refuse_unbounded
from .confinement import RESOURCES, account, lack_for, leaves_temporary, rules_for
from .directory import DirectorySandbox
from .drivers import Availability, Isolation, Order
from .enclosure import Network, Owner, View
from .environment import SearchPath
from .exposure import HostPrograms
from .keeper import MOST_NAMED, UNKNOWN
from .network import network_of
from .process import SurvivorsError
from .protocol import Phase, ProcessResult
from .standing import changes, restore, standing
from .supervision import Command, Keeper, KeeperLost
from .withholding import Withheld


class TempdirDriver:
    """Tidy and supervised. The agent is the user that pytest runs as; its files are restricted where Landlock is."""

    name = "tempdir"
    isolation = Isolation.TEMPDIR

    def availability(self, order: Order | None = None) -> Availability:
        """See `drivers.Driver.availability`."""
        lack = lack_for(network_of(order.config, shared_by_default=True).kind) if order is not None else None
        return Availability(lack is None, lack or "")

    def create(self, order: Order) -> DirectorySandbox:
        """See `drivers.Driver.create`."""
        if (lack := lack_for(network_of(order.config, shared_by_default=True).kind)) is not None:
            raise TrialError(Cause.SANDBOX, f"the driver {self.name!r} cannot be had: {lack}")
        place = registry.registry(order.root_parent, avoid=Withheld(order.environments.withhold))
        group = _group(order)
        root = place.new_root()
        return DirectorySandbox(place, order, TempdirSystem(place, root, order, group), root)


class TempdirSystem:
    """The harness's own system, as its own user. See `directory.System`."""

    driver = TempdirDriver.name
    owner: Owner | None = None
    shim_shell: str | None = None
    python = sys.executable
    own_network = False
    can_mount = False

    def __init__(self, place: registry.Registry, root: Path, order: Order, group: Group) -> None:
        self._place = place
        self._root = root
        self._group = group
        self.search_path = host_search_path()
        self.variables: Mapping[str, str] = host_basics()
        self.network: Network = network_of(order.config, shared_by_default=True)
        self._readable = order.readable
        secret = [*order.hidden, *order.environments.withhold, place.home.parent]
        told = account(self.network.kind, temporary=leaves_temporary(secret))
        self.described: Mapping[str, object] = {"driver": self.driver, **told, **_limits_told(order, told, group)}

    def enclose(self, phase: Phase, view: View) -> KeptProcesses:
        """See `directory.System.enclose`. Who prepares and who grades reads and writes what the harness's user can."""
        rules = None
        if phase is not Phase.PREPARE:
            agents_own = phase in (Phase.AGENT, Phase.RUN)
            rules = rules_for(view, files=agents_own, kept_out=[self._place.home.parent], readable=self._readable)
        return KeptProcesses(self._place, self._root, watched=phase is Phase.AGENT, rules=rules, group=self._group)

    def run_tool(self, argv: Sequence[str], cwd: Path, timeout: float) -> ProcessResult:
        """See `directory.System.run_tool`. With the harness's own environment."""
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
        self._group.remove()


def _group(order: Order) -> Group:
    """Control groups for the limits that the task asks for, mostly none. Raises TrialError(SANDBOX)."""
    group = make_group(asked_limits(order.config.limits))
    try:
        refuse_unbounded(order.config.limits, group, TempdirDriver.name)
    except BaseException:
        group.remove()
        raise
    return group


def _limits_told(order: Order, told: Mapping[str, object], group: Group) -> dict[str, object]:
    """What changes in the account where the task asks for limits."""
    if not group.bounded:
        return {}
    asked = order.config.limits
    lacking = [text for limit, text in (("memory", "memory"), ("cpu", "processors")) if limit not in group.bounded]
    texts = [text for text in cast("list[str]", told["does_not_isolate"]) if text != RESOURCES]
    return {
        "does_not_isolate": [*texts, *([" and ".join(lacking)] if lacking else [])],
        "limits": {key: getattr(asked, key) for key in ("max_memory_mb", "max_pids", "max_cpus")},
    }


def run_host_tool(
    place: registry.Registry, root: Path, argv: Sequence[str], cwd: Path, timeout: float
) -> ProcessResult:
    """Run a program of the harness with the harness's own environment, supervised."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    enclosure = KeptProcesses(place, root, watched=False)
    try:
        return enclosure.run(
            Command(argv, str(cwd), own, timeout=timeout, output_limit=1_000_000, scoped=False, reap=True)
        )
    finally:
        enclosure.end()


class KeptProcesses:
    """Processes of the harness's user, kept by a keeper and to `rules`, in the control groups of `group`.

    `watched` ones may have attacked what they inherit.
    """

    def __init__(
        self,
        place: registry.Registry,
        root: Path,
        *,
        watched: bool,
        rules: landlock.Rules | None = None,
        group: Group = NO_GROUP,
    ) -> None:
        self._group = group
        self._place = place
        self._root = root
        self._watching = watched
        self._rules = rules
        self._standing: dict[str, Any] | None = standing() if watched else None
        self._keeper: Keeper | None = None

    def run(self, command: Command) -> ProcessResult:
        """See `enclosure.Enclosure.run`."""
        with self._watched():
            return process.run(self._open_keeper(), self._ruled(command))

    def stream(self, command: Command, wake: int | None) -> Generator[bytes, None, ProcessResult]:
        """See `enclosure.Enclosure.stream`."""
        with self._watched():
            return (yield from process.stream(self._open_keeper(), self._ruled(command), wake))

    def make_ready(self) -> None:
        """See `enclosure.Enclosure.make_ready`. There is nothing to wait for."""

    def abort(self) -> None:
        """See `enclosure.Enclosure.abort`."""
        registry.kill_below(self._root, by_arguments=True)

    def listen(self, address: str = "127.0.0.1", port: int = 0) -> socket.socket:
        """See `enclosure.Enclosure.listen`."""
        return socket.create_server((address, port))

    def _ruled(self, command: Command) -> Command:
        if self._rules is None and not self._group.folders:
            return command
        return dataclasses.replace(command, rules=self._rules, joins=self._group.joins)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Say what it means for the trial when the keeper is gone or processes outlive it."""
        try:
            yield
        except KeeperLost:
            raise self._loss() from None
        except SurvivorsError as error:
            raise _survivors(error.pids) from None

    def _open_keeper(self) -> Keeper:
        if self._keeper is not None and not self._keeper.usable:
            self.end()
        if self._keeper is None:
            self._keeper = supervision.supervisor().open_keeper()
        return self._keeper

    def end(self) -> None:
        """See `enclosure.Enclosure.end`. It can be used again afterwards."""
        altered = self._restore_standing()
        keeper = self._keeper
        try:
            self._end_processes()
        finally:
            if self._watching:
                altered += [*self._place.repair(), *registry.take_back(self._root)]
        if keeper is not None:
            altered += keeper.altered
        if altered:
            raise TrialError(Cause.TAMPERED, f"the agent changed what is not its own: {', '.join(altered)}")

    def _restore_standing(self) -> list[str]:
        """Undo what the agent did to the limits of this process; what it was."""
        if self._standing is None:
            return []
        altered = changes(self._standing, standing())
        if not altered:
            return []
        restore(self._standing)
        lasting = changes(self._standing, standing())
        self._standing = None
        return [f"{name} of pytest{' (for good)' if name in lasting else ''}" for name in altered]

    def _end_processes(self) -> None:
        """A keeper whose end was interrupted is kept, so that the next call waits for it."""
        keeper = self._keeper
        if keeper is None:
            return
        try:
            survivors = keeper.release() if keeper.usable else self._settle(keeper)
        except KeeperLost:
            raise self._loss() from None
        self._keeper = None
        if survivors:
            raise _survivors(survivors)

    def _settle(self, keeper: Keeper) -> list[int]:
        """The end of a keeper that was given up, because a wait for it was interrupted."""
        try:
            status, survivors = keeper.settle()
        except TrialError:
            self._keeper = None
            registry.kill_below(self._root)
            raise
        self._keeper = None
        if status < 0:
            registry.kill_below(self._root)
            raise TrialError(Cause.TAMPERED, f"the keeper of the agent's processes was killed by signal {-status}")
        return survivors

    def _loss(self) -> TrialError:
        """Clean up after a keeper that is gone without being asked, and say why it is."""
        keeper = self._keeper
        if keeper is None:
            return TrialError(Cause.TAMPERED, "the keeper of the agent's processes is gone")
        try:
            survivors = self._settle(keeper)
        except TrialError as error:
            return error
        if survivors:
            return _survivors(survivors)
        return TrialError(Cause.SANDBOX, "the keeper of the agent's processes ended by itself")


def shut_down() -> None:
    """Kill all processes of all sandboxes of this process, then remove what they left on disk."""
    supervision.shut_down()
    registry.release_all()


atexit.register(shut_down)

_search_paths: dict[str, SearchPath] = {}


def host_search_path() -> SearchPath:
    """The search path of this process; made anew when the harness's PATH changes."""
    key = os.environ.get("PATH", "")
    if key not in _search_paths:
        _search_paths[key] = SearchPath()
    return _search_paths[key]


def host_basics() -> dict[str, str]:
    """The variables that every process on the harness's own system gets."""
    variables = {"LANG": "C.UTF-8"}
    for name in ("TZ", "USER", "LOGNAME"):
        if name in os.environ:
            variables[name] = os.environ[name]
    return variables


def _survivors(pids: Sequence[int]) -> TrialError:
    named = ", ".join("of unknown id" if pid == UNKNOWN else str(pid) for pid in pids[:MOST_NAMED])
    return TrialError(Cause.SANDBOX, f"processes of the sandbox cannot be killed: {named}")
