"""Handlers that a task names as pytest users do: a fixture, or a function of a conftest.py above the task."""

from __future__ import annotations

import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ..recorder.answers.engine import Handler


def find_by_name(request: pytest.FixtureRequest, folder: Path, name: str) -> Handler:
    """The fixture `name`, whose value is called, or else the function `name` of the nearest conftest.py.

    Raises TrialError(CONFIGURATION) when there is neither.
    """
    from ..errors import Cause, TrialError
    from ..task.nearest import hint

    try:
        value: Any = request.getfixturevalue(name)
    except pytest.FixtureLookupError:
        modules = _conftests_above(request.config, folder)
        value = next((found for module in modules if (found := getattr(module, name, None)) is not None), None)
        known = {key for module in modules for key, value in vars(module).items() if callable(value)}
        what = f"no fixture and no function of a conftest.py is called so{hint(name, known)}"
    else:
        what = f"the fixture's value is no function, but {type(value).__name__}"
    if not callable(value):
        raise TrialError(Cause.CONFIGURATION, f"handler {name!r}: {what}")
    return value  # type: ignore[no-any-return]


def _conftests_above(config: pytest.Config, folder: Path) -> list[types.ModuleType]:
    """The loaded conftest modules that hold for `folder`, the nearest first."""
    found = []
    for plugin in config.pluginmanager.get_plugins():
        path = Path(getattr(plugin, "__file__", None) or "")
        if isinstance(plugin, types.ModuleType) and path.name == "conftest.py" and folder.is_relative_to(path.parent):
            found.append(plugin)
    return sorted(found, key=lambda module: len(str(module.__file__)), reverse=True)
