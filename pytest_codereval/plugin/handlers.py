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

    Raises TrialError(CONFIGURATION) when there is neither, and when the fixture fails or skips.
    """
    from ..errors import Cause, TrialError
    from ..task.nearest import hint

    value: Any = None
    try:
        value = request.getfixturevalue(name)
        what = f"the fixture's value is no function, but {type(value).__name__}"
    except pytest.FixtureLookupError as error:
        if error.argname == name:
            functions = _functions_above(request.config, folder)
            value = functions.get(name)
            what = f"no fixture and no function of a conftest.py is called so{hint(name, functions)}"
        else:
            what = f"the fixture needs {error.argname!r}: {error.msg or 'there is no such fixture'}"
    except pytest.skip.Exception as error:
        what = f"the fixture skipped: {error}"
    except pytest.fail.Exception as error:
        what = f"the fixture failed: {error}"
    if not callable(value):
        raise TrialError(Cause.CONFIGURATION, f"handler {name!r}: {what}")
    return value  # type: ignore[no-any-return]


def _functions_above(config: pytest.Config, folder: Path) -> dict[str, Any]:
    """What can be called in the conftest modules that hold for `folder`, fixtures aside; the nearest of a name."""
    from ..recorder.answers.handler_files import is_fixture

    found: dict[str, Any] = {}
    for module in _conftests_above(config, folder):
        for name, value in vars(module).items():
            if callable(value) and not is_fixture(value):
                found.setdefault(name, value)
    return found


def _conftests_above(config: pytest.Config, folder: Path) -> list[types.ModuleType]:
    """The loaded conftest modules that hold for `folder`, the nearest first."""
    found = []
    for plugin in config.pluginmanager.get_plugins():
        path = Path(getattr(plugin, "__file__", None) or "")
        if isinstance(plugin, types.ModuleType) and path.name == "conftest.py" and folder.is_relative_to(path.parent):
            found.append(plugin)
    return sorted(found, key=lambda module: len(str(module.__file__)), reverse=True)
