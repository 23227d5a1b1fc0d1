"""What the processes of each phase see of a sandbox whose files lie in a directory of the harness's disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .enclosure import Mount, Network, Owner, View
from .environment import Places
from .extra_mounts import extra_mounts, unspoilt
from .legibility import Legible
from .protocol import Phase

if TYPE_CHECKING:
    from .drivers import Order


class Sight:
    """Views by phase. `exposed` is for AGENT, `shown` for the phase of graders or hooks that is to come."""

    def __init__(self, root: Path, order: Order, owner: Owner | None, network: Network) -> None:
        self.workspace = root / "workspace"
        self.bin_dir = root / "bin"
        self.spool_dir = root / "spool"
        self.provided = root / "provided"
        self.exposed: list[Path] = []
        self.shown: list[Path] = []
        self.shims: dict[str, Path] = {}
        self.launcher: Path | None = None
        self._root = root
        self._order = order
        self._owner = owner
        self._network = network
        self._legible = Legible(root / "legible", owner)
        self._mounts: tuple[Mount, ...] = ()
        self._graders_mounts: tuple[Mount, ...] = ()

    def mount_extra(self) -> tuple[Mount, ...]:
        """Make the task's further mounts ready; those that the agent sees. Raises TrialError."""
        order = self._order
        if order.task_dir is not None and order.config.docker.mounts:
            keys = (*order.hidden, *order.answer_keys)
            self._mounts = extra_mounts(order.config, None, order.task_dir, self._root, keys, owner=self._owner)
        return self._mounts

    def keep_mounts(self) -> None:
        """Keep what preparation has left in the task's further mounts for GRADE. Raises OSError."""
        self._graders_mounts = unspoilt(self._mounts, self._root, self._owner)

    def view(self, phase: Phase, places: Places, venv: Path | None, ports: Sequence[int]) -> View:
        """What a phase sees whose HOME and the like are `places`. Raises TrialError(SANDBOX)."""
        readable = [places.login_script, places.tools]
        writable = [self.workspace, places.home, places.tmp, places.cache]
        if venv is not None:
            (readable if phase is Phase.RUN else writable).append(venv)
        if phase in (Phase.AGENT, Phase.GRADE):
            readable.append(self.bin_dir)
            writable.append(self.spool_dir)
        if phase is Phase.GRADE and self.launcher is not None:
            readable += [self._root / "login.sh", self.launcher / "bin"]
            writable.append(self.launcher / "spool")
        trusted = phase in (Phase.PREPARE, Phase.GRADE)
        given = self._given() if phase is Phase.AGENT else ()
        mounts = [*(self._material() if trusted else ()), *given, *(Mount(path, path) for path in readable)]
        mounts += [Mount(path, path, writable=True) for path in writable]
        further = self._graders_mounts if phase is Phase.GRADE else self._mounts
        return View(
            cwd=self.workspace,
            mounts=_there([*mounts, *further]),
            hidden=(*self._order.hidden, *(() if trusted else self._order.environments.withhold)),
            shims=self._shims_of(phase),
            network=Network("shared") if phase is Phase.PREPARE else self._network,
            ports=tuple(ports) if phase is Phase.AGENT else (),
        )

    def _material(self) -> Iterable[Mount]:
        """The checkout, the task's folder, and what was shown."""
        withheld = self._order.environments.withhold
        for path in withheld:
            if path != self._order.task_dir:
                yield from self._legible.outline(path)
        for path in (*(place for place in withheld if place == self._order.task_dir), *self.shown):
            yield from self._legible.whole(path)

    def _given(self) -> Iterable[Mount]:
        """The programs and plugins of the agent."""
        for path in (self.provided, *self.exposed):
            yield from self._legible.whole(path)

    def _shims_of(self, phase: Phase) -> Mapping[str, Path]:
        return dict(self.shims) if phase is Phase.AGENT else {}


def _there(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    return tuple(mount for mount in mounts if os.path.lexists(mount.source))
