"""Which driver makes the sandboxes, how strong it has to be, and the drivers that plugins bring."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import CoderEvalError
from ..text import clean

if TYPE_CHECKING:
    from ..sandbox.choice import Choice
    from ..sandbox.drivers import Availability, Driver, Isolation

WORKER_KEY = "codereval_usable_drivers"
"""Name under which the controller tells its workers of which drivers `auto` picks."""

LEVELS = ("tempdir", "bubblewrap", "docker")
"""The weakest first."""

DRIVER_OPTION, DRIVER_INI, IMAGE_INI = "--codereval-driver", "ini codereval_driver", "ini codereval_image"
_ADDED = pytest.StashKey[bool]()
_FOUND = pytest.StashKey["dict[str, Availability]"]()
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("codereval", "tasks for coding agents")
    group.addoption(
        "--codereval-driver",
        metavar="NAME",
        help="driver that makes the sandboxes (tempdir, bubblewrap, docker, or one of a plugin), in place of the one "
        "each task names; auto: the strongest that can be had on this machine, and the session says which. "
        "`python -m pytest_codereval drivers` lists them",
    )
    group.addoption(
        "--codereval-isolation",
        metavar="LEVEL",
        help="least isolation of a trial: tempdir, bubblewrap or docker. When a trial would run with less, the "
        "session ends with exit status 4 before anything is spent",
    )
    parser.addini("codereval_driver", "driver of the tasks that name none: a name, or auto", default="")
    parser.addini("codereval_isolation", "least isolation of a trial, as by --codereval-isolation", default="")
    parser.addini("codereval_image", "image of the driver docker for tasks that name none", default="")
    parser.addini(
        "codereval_readable",
        "further files and folders of this machine that agents may read under the drivers tempdir and bubblewrap, such "
        "as a toolchain in /opt; one a line, relative to the root directory",
        type="linelist",
        default=[],
    )


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    for what, name in (
        (DRIVER_OPTION, config.getoption("codereval_driver")),
        (DRIVER_INI, config.getini("codereval_driver") or None),
    ):
        if name is not None:
            _check_driver(config, what, name)
    what, level = _level(config)
    if level is not None and level not in LEVELS:
        raise pytest.UsageError(f"{what} {level!r}: expected one of {', '.join(LEVELS)}{_hint(level, LEVELS)}")
    if config.hook.pytest_codereval_drivers.get_hookimpls():
        add_drivers_of_plugins(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if config.stash.get(_ADDED, False):
        from ..sandbox.drivers import forget_added

        forget_added()


def _check_driver(config: pytest.Config, what: str, name: str) -> None:
    from ..sandbox.drivers import names

    add_drivers_of_plugins(config)
    known = (*names(), "auto")
    if name not in known:
        raise pytest.UsageError(f"{what} {name!r}: expected one of {', '.join(known)}{_hint(name, known)}")


def _hint(name: str, known: Iterable[str]) -> str:
    from ..task.nearest import hint

    return hint(name, known)


def _level(config: pytest.Config) -> tuple[str, str | None]:
    """Where the least isolation is asked for, and which."""
    asked = config.getoption("codereval_isolation")
    if asked is not None:
        return "--codereval-isolation", asked
    return "ini codereval_isolation", config.getini("codereval_isolation") or None


# -- drivers of plugins


def add_drivers_of_plugins(config: pytest.Config) -> None:
    """Ask plugins and conftest files for their drivers, once in a session, before the first task is loaded."""
    if config.stash.get(_ADDED, False):
        return
    config.stash[_ADDED] = True
    implementations = config.hook.pytest_codereval_drivers.get_hookimpls()
    if not implementations:
        return
    from ..sandbox.drivers import add_drivers

    for each in implementations:
        others = [other.plugin for other in implementations if other.plugin is not each.plugin]
        ask = config.pluginmanager.subset_hook_caller("pytest_codereval_drivers", others)
        try:
            for found in ask(config=config):
                add_drivers(_listed(found, each.plugin_name), each.plugin_name)
        except CoderEvalError as error:
            raise pytest.UsageError(str(error)) from None


def _listed(found: object, origin: str) -> tuple[Driver, ...]:
    """What one implementation of the hook gave, if it is what the hook asks for."""
    if not isinstance(found, Iterable):
        raise pytest.UsageError(
            f"pytest_codereval_drivers of {origin}: expected a list of drivers, found {found!r:.200}"
        )
    listed = tuple(found)
    for each in listed:
        if why := _no_driver(each):
            raise pytest.UsageError(f"pytest_codereval_drivers of {origin}: {each!r:.200} is no driver: {why}")
    return listed


def _no_driver(found: object) -> str | None:
    from ..sandbox.drivers import Isolation

    name = getattr(found, "name", None)
    if isinstance(found, type):
        return "it is a class, expected an instance"
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"its name is {name!r:.80}, expected letters, digits, '.', '_' and '-'"
    if not isinstance(getattr(found, "isolation", None), Isolation):
        return "its isolation is no Isolation"
    lacking = [method for method in ("availability", "create") if not callable(getattr(found, method, None))]
    return f"it has no method {lacking[0]}" if lacking else None


# -- what the session decides


def choice(config: pytest.Config) -> Choice:
    """What this session decides about drivers. Raises pytest.UsageError for what is wrong in the ini file."""
    from ..sandbox.choice import Choice

    return Choice(
        driver=config.getoption("codereval_driver"),
        default=config.getini("codereval_driver") or None,
        least=least(config),
        usable=usable(config) if asks_auto(config) else None,
        image=config.getini("codereval_image") or None,
        readable=_readable(config),
    )


def least(config: pytest.Config) -> Isolation:
    """The weakest isolation that a trial may have."""
    from ..sandbox.drivers import Isolation

    _, level = _level(config)
    return Isolation[level.upper()] if level else Isolation.TEMPDIR


def least_asked(config: pytest.Config) -> str:
    """How the least isolation is asked for, for messages."""
    what, level = _level(config)
    return f"{what} {level}"


def asks_auto(config: pytest.Config) -> bool:
    """Whether the session has drivers picked."""
    return "auto" in (config.getoption("codereval_driver"), config.getini("codereval_driver"))


def usable(config: pytest.Config) -> tuple[str, ...]:
    """The drivers of which `auto` picks, the strongest first; under xdist those that the controller found."""
    told: Mapping[str, Any] | None = getattr(config, "workerinput", None)
    if told is not None:
        return tuple(told[WORKER_KEY])
    return tuple(name for name, availability in found(config).items() if availability.usable)


def found(config: pytest.Config) -> dict[str, Availability]:
    """Whether each built-in driver can be had, the strongest first; asked once in a session."""
    made = config.stash.get(_FOUND, None)
    if made is None:
        from ..sandbox.choice import availabilities

        made = config.stash[_FOUND] = availabilities()
    return made


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    if asks_auto(node.config):
        node.workerinput[WORKER_KEY] = list(usable(node.config))


def _readable(config: pytest.Config) -> tuple[Path, ...]:
    places = []
    for line in config.getini("codereval_readable"):
        place = (config.rootpath / Path(line).expanduser()).absolute()
        if not place.exists():
            raise pytest.UsageError(f"ini codereval_readable: {line!r}: {place} is not there")
        if config.rootpath.resolve().is_relative_to(place.resolve()):
            raise pytest.UsageError(
                f"ini codereval_readable: {line!r}: {place} holds the root directory, which agents must not see"
            )
        places.append(place)
    return tuple(places)


# -- what is said


def pytest_report_header(config: pytest.Config) -> str | None:
    override, default = config.getoption("codereval_driver"), config.getini("codereval_driver")
    what, level = _level(config)
    parts = []
    if override:
        parts.append(f"{_named(config, override)} ({DRIVER_OPTION})")
    elif default:
        parts.append(f"{_named(config, default)} for tasks that name none ({DRIVER_INI})")
    elif level:
        parts.append("the one that each task names")
    if level:
        parts.append(f"at least {level} ({what})")
    return clean(f"codereval driver: {'; '.join(parts)}") if parts else None


def _named(config: pytest.Config, name: str) -> str:
    if name != "auto" or config.option.collectonly:
        return name
    strongest, *weaker = usable(config) or ("no driver",)
    reasons = [f"{each} cannot be had: {there.reason}" for each, there in found(config).items() if not there.usable]
    otherwise = [f"for a trial that cannot have it: {weaker[0]}"] if weaker else []
    return "; ".join([f"auto picks {strongest}", *otherwise, *reasons])
