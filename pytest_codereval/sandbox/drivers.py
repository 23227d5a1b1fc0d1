"""The drivers by name, those that plugins bring among them, and which of them can be had here."""

from __future__ import annotations

import dataclasses
import enum
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import Cause, CoderEvalError, TrialError
from ..task import driver_names
from .environment import EnvironmentPlan
from .protocol import Sandbox

if TYPE_CHECKING:
    from ..task.models import SandboxConfig

BUILT_IN: Mapping[str, str] = {
    "tempdir": "tempdir:TempdirDriver",
    "bubblewrap": "bubblewrap.driver:BubblewrapDriver",
    "docker": "docker.driver:DockerDriver",
}
"""Module below this package and class of each driver that comes with the package, the weakest first."""

AUTO = "auto"


class Isolation(enum.IntEnum):
    """How strong the isolation of a driver is: at least that of the built-in driver of this name."""

    TEMPDIR = 0
    BUBBLEWRAP = 1
    DOCKER = 2

    @property
    def label(self) -> str:
        return self.name.lower()


@dataclasses.dataclass(frozen=True)
class Availability:
    """Whether a driver can be had on this machine, for an order if one is given; `reason` says why not."""

    usable: bool
    reason: str = ""


@dataclasses.dataclass(frozen=True)
class Order:
    """What a trial asks of a driver.

    `environments.withhold` are the places that preparation and grading may read and the agent must never see: the
    task's folder and the checkout. `hidden` is seen by nobody in a sandbox, such as the run directory. `passthrough`
    are further names of variables to let through. `image` is what a driver of containers uses where the task names
    none. `session` is a name of this call of pytest, `trial` of the trial, both for labels. `readable` are places of
    this machine that the agent may read although they belong neither to the system nor to what is installed on PATH.
    `answer_keys` are files and folders, beside those to withhold, that no mount, image or template may bring along.
    Without `seeded` the workspace is empty, whatever the system holds in its place.
    """

    config: SandboxConfig
    environments: EnvironmentPlan = dataclasses.field(default_factory=EnvironmentPlan)
    task_dir: Path | None = None
    hidden: tuple[Path, ...] = ()
    passthrough: tuple[str, ...] = ()
    root_parent: Path | None = None
    image: str | None = None
    session: str = ""
    trial: str = ""
    readable: tuple[Path, ...] = ()
    answer_keys: tuple[Path, ...] = ()
    seeded: bool = True


class Driver(Protocol):
    """Makes sandboxes of one kind."""

    name: str
    isolation: Isolation

    def availability(self, order: Order | None = None) -> Availability:
        """Whether this driver can be had, for this order if one is given. Asked often: what is costly is kept."""

    def create(self, order: Order) -> Sandbox:
        """An empty sandbox. Raises TrialError(CONFIGURATION) for what the author can change, else SANDBOX."""


class DuplicateDriverError(CoderEvalError):
    """Two drivers have one name."""


_added: dict[str, tuple[Driver, str]] = {}
_built_in: dict[str, Driver] = {}


def add_drivers(drivers: Iterable[Driver], origin: str) -> None:
    """Make the drivers of a plugin known; `origin` names it. Raises DuplicateDriverError naming both."""
    for driver in drivers:
        if driver.name in BUILT_IN or driver.name == AUTO:
            raise DuplicateDriverError(f"the driver {driver.name!r} of {origin} has the name of a built-in one")
        if driver.name in _added and _added[driver.name][0] is not driver:
            raise DuplicateDriverError(f"two drivers are named {driver.name!r}: {_added[driver.name][1]} and {origin}")
        _added[driver.name] = (driver, origin)
        driver_names.add(driver.name)


def forget_added() -> None:
    """Forget the drivers of plugins, when a session ends."""
    _added.clear()
    driver_names.forget_added()


def names() -> tuple[str, ...]:
    """The names of all drivers."""
    return (*BUILT_IN, *_added)


def driver(name: str) -> Driver:
    """The driver of this name. Raises TrialError(CONFIGURATION)."""
    if name in _added:
        return _added[name][0]
    if name not in BUILT_IN:
        raise TrialError(
            Cause.CONFIGURATION, f"sandbox.driver: there is no driver {name!r}; it is {', '.join(names())}"
        )
    if name not in _built_in:
        module, _, made = BUILT_IN[name].partition(":")
        _built_in[name] = getattr(importlib.import_module(f".{module}", __package__), made)()
    return _built_in[name]
