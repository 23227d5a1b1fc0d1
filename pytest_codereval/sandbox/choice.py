"""Which driver a trial gets, from what the session, the task and the machine say, and what a suite demands of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from .drivers import AUTO, BUILT_IN, Availability, Driver, Isolation, Order, driver
from .protocol import Sandbox

if TYPE_CHECKING:
    from ..task.models import SandboxConfig

PROMISES: Mapping[Isolation, str] = {
    Isolation.TEMPDIR: "folders of its own, an explicit environment, all processes ended by a supervisor; the agent is "
    "the user that pytest runs as, and where the kernel has no Landlock it reads and writes what that user can",
    Isolation.BUBBLEWRAP: "the agent sees the programs of this machine, its own folders, its own processes, and no "
    "network but what the task allows; it shares the kernel and the installed programs",
    Isolation.DOCKER: "the agent sees an image in place of this machine, its own folders and processes; without "
    "capabilities, with limits of memory, processors and processes; it shares the kernel",
}
"""What a driver of each strength isolates, in a sentence."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """What a session decides about the drivers of its trials.

    `driver` takes the place of the one that a task names, `default` is for tasks that name none; each may be `auto`.
    A trial that would run with less than `least` is refused. `usable` are the drivers of which `auto` picks, the
    strongest first, as they were found when the session began; without it they are asked for each trial. `image` and
    `readable` are for `drivers.Order`.
    """

    driver: str | None = None
    default: str | None = None
    least: Isolation = Isolation.TEMPDIR
    usable: tuple[str, ...] | None = None
    image: str | None = None
    readable: tuple[Path, ...] = ()

    def name_for(self, config: SandboxConfig) -> str:
        """The driver that a task with this sandbox gets: a name, or `auto`."""
        if self.driver is not None:
            return self.driver
        if self.default is not None and "driver" not in config.model_fields_set:
            return self.default
        return config.driver

    def create(self, order: Order) -> Sandbox:
        """An empty sandbox. Raises TrialError, for one when it would isolate less than is demanded."""
        return self.driver_for(order).create(order)

    def driver_for(self, order: Order) -> Driver:
        """The driver of a trial.

        Raises TrialError(CONFIGURATION) when there is none of the name that is asked for, or when it isolates less
        than is demanded; TrialError(SANDBOX) when it cannot be had.
        """
        name = self.name_for(order.config)
        if name == AUTO:
            return self._strongest(order)
        found = driver(name)
        if found.isolation < self.least:
            raise TrialError(Cause.CONFIGURATION, f"refused: {self._too_weak(found)}")
        there = availability(name, order)
        if not there.usable:
            raise TrialError(Cause.SANDBOX, f"the driver {name!r} cannot be had: {there.reason}")
        return found

    def _too_weak(self, found: Driver) -> str:
        return f"the driver {found.name!r} isolates less than {self.least.label!r}, which this session demands"

    def _strongest(self, order: Order) -> Driver:
        """The strongest usable driver that this order can have.

        One that could be had when the session began, and now cannot, is an error: nothing falls back in silence.
        """
        reasons = []
        for name in strongest_first() if self.usable is None else self.usable:
            found, there = driver(name), availability(name, order)
            if there.usable and found.isolation >= self.least:
                return found
            if there.usable:
                reasons.append(self._too_weak(found))
                break
            if self.usable is not None and not (now := availability(name)).usable:
                raise TrialError(
                    Cause.SANDBOX, f"the driver {name!r} could be had when the session began, and now not: {now.reason}"
                )
            reasons.append(f"{name!r} cannot be had for this trial: {there.reason}")
        raise TrialError(Cause.SANDBOX, f"auto finds no driver: {'; '.join(reasons) or 'none can be had'}")


def strongest_first() -> tuple[str, ...]:
    """The names of the drivers of which `auto` picks."""
    return tuple(reversed([*BUILT_IN]))


def availability(name: str, order: Order | None = None) -> Availability:
    """Whether a driver can be had; one that cannot even say so cannot. Raises TrialError for a wrong name."""
    try:
        return driver(name).availability(order)
    except TrialError:
        raise
    except Exception as error:
        return Availability(False, f"{type(error).__name__}: {error}")


def availabilities() -> dict[str, Availability]:
    """Of each driver of which `auto` picks, the strongest first, whether it can be had on this machine."""
    return {name: availability(name) for name in strongest_first()}
