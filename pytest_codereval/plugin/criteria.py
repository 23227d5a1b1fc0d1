"""The types of criteria that plugins bring, those of vendors among them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError

if TYPE_CHECKING:
    from ..criteria.registry import CriterionKind

_ADDED = pytest.StashKey[bool]()
_HOOK = "pytest_codereval_criteria"


def pytest_codereval_criteria(config: pytest.Config) -> Iterable[CriterionKind]:
    from ..criteria.vendor import KINDS

    return KINDS


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if len(config.hook.pytest_codereval_criteria.get_hookimpls()) > 1:
        add_criteria_of_plugins(config)


def add_criteria_of_plugins(config: pytest.Config) -> None:
    """Ask plugins and conftest files for their criteria, once in a session, before the first task is loaded."""
    if config.stash.get(_ADDED, False):
        return
    config.stash[_ADDED] = True
    from ..criteria.registry import use_kinds

    try:
        config.add_cleanup(use_kinds(_asked(config)))
    except CoderEvalError as error:
        raise pytest.UsageError(str(error)) from None
    config.pluginmanager.register(_Late(config), "codereval-late-criteria")


class _Late:
    """Refuses a conftest.py that is found when it is too late: some tasks would know its types and others would not."""

    def __init__(self, config: pytest.Config) -> None:
        self._known = set(map(id, config.pluginmanager.get_plugins()))

    def pytest_plugin_registered(self, plugin: object) -> None:
        if hasattr(plugin, _HOOK) and id(plugin) not in self._known:
            where = getattr(plugin, "__file__", plugin)
            raise pytest.UsageError(
                f"{where}: {_HOOK} comes too late here, since tasks have been loaded already: implement it in the "
                "conftest.py of the root directory, or in a plugin"
            )


def _asked(config: pytest.Config) -> list[CriterionKind]:
    """What each plugin gives, with its name. Built-in plugins come first, so that a message names what was added."""
    implementations = config.hook.pytest_codereval_criteria.get_hookimpls()
    kinds: list[CriterionKind] = []
    for each in implementations:
        others = [other.plugin for other in implementations if other.plugin is not each.plugin]
        ask = config.pluginmanager.subset_hook_caller(_HOOK, others)
        try:
            for found in ask(config=config):
                kinds += _listed(found, each.plugin_name)
        except (pytest.UsageError, pytest.fail.Exception, pytest.exit.Exception):
            raise
        except (Exception, pytest.skip.Exception) as error:
            told = f"{_HOOK} of {each.plugin_name} raised {type(error).__name__}: {error}"
            raise pytest.UsageError(told) from error
    return kinds


def _listed(found: object, origin: str) -> tuple[CriterionKind, ...]:
    """What one implementation of the hook gave, if it is what the hook asks for."""
    from ..criteria.registry import CriterionKind

    what = f"{_HOOK} of {origin}: expected a list of CriterionKind"
    if not isinstance(found, Iterable):
        raise pytest.UsageError(f"{what}, found {found!r:.200}")
    listed = tuple(found)
    for kind in listed:
        if not isinstance(kind, CriterionKind):
            raise pytest.UsageError(f"{what}, found {kind!r:.200} in it")
    return tuple(dataclasses.replace(kind, origin=kind.origin or origin) for kind in listed)
