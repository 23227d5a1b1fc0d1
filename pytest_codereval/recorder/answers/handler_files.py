"""Finding the Python function that a `handler:` names by its file or module."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import Cause, TrialError
from ...sandbox.host_path import host_path
from ...task.nearest import hint

if TYPE_CHECKING:
    from .engine import Handler

FindByName = Callable[[str], "Handler"]
"""Finds a handler that is named without a file or module. Raises TrialError(CONFIGURATION)."""

_IN_FILE = re.compile(r"(?P<place>.+\.py):(?P<function>\w+)")
_MARKS_OF_FIXTURES = ("_fixture_function_marker", "_pytestfixturefunction")
_IN_MODULE = re.compile(r"(?P<place>[\w.]+):(?P<function>\w+)")


def no_names(name: str) -> Handler:
    """For trials outside of pytest, where nothing has names."""
    raise TrialError(Cause.CONFIGURATION, f"handler {name!r}: expected file.py:function or module:function")


def find_handler(text: str, folder: Path, by_name: FindByName) -> Handler:
    """Return what `text` names: `file.py:function` relative to `folder`, `module:function`, or a name for `by_name`.

    Raises TrialError(CONFIGURATION) when it is not there, cannot be imported, or is no plain function of a call.
    """
    if match := _IN_FILE.fullmatch(text):
        path = host_path(match["place"], folder, "handler")
        module = _checked(text, lambda: _module_of(path, path.stat().st_mtime_ns))
    elif match := _IN_MODULE.fullmatch(text):
        place = match["place"]
        module = _checked(text, lambda: importlib.import_module(place))
    else:
        return _refused_unless_plain(by_name(text), text)
    return _refused_unless_plain(_function_of(module, match["function"], text), text)


def _function_of(module: types.ModuleType, name: str, text: str) -> Handler:
    found: Any = getattr(module, name, None)
    if any(mark in dir(found) for mark in _MARKS_OF_FIXTURES):
        what = f"{name} is a fixture: name it without the file, and have it in a conftest.py"
        raise TrialError(Cause.CONFIGURATION, f"handler {text!r}: {what}")
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value)]
        raise TrialError(Cause.CONFIGURATION, f"handler {text!r}: no function {name!r}{hint(name, known)}")
    return found  # type: ignore[no-any-return]


def _refused_unless_plain(handler: Handler, text: str) -> Handler:
    """`handler`; raises TrialError(CONFIGURATION) for what gives no reply when it is called."""
    called = handler if inspect.isroutine(handler) or isinstance(handler, functools.partial) else type(handler).__call__
    if inspect.isclass(handler):
        kind = "a class"
    elif inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        kind = "a generator"
    elif inspect.iscoroutinefunction(called):
        kind = "a coroutine"
    else:
        return handler
    raise TrialError(Cause.CONFIGURATION, f"handler {text!r}: {kind}; expected a function that returns its reply")


def _checked(text: str, load: Callable[[], types.ModuleType]) -> types.ModuleType:
    try:
        return load()
    except Exception as error:
        raise TrialError(Cause.CONFIGURATION, f"handler {text!r}: {type(error).__name__}: {error}") from error


@functools.lru_cache(maxsize=256)
def _module_of(path: Path, _changed: int) -> types.ModuleType:
    """Run the file as a module of its own. Nothing is written beside it, for the task's folder must stay as it is."""
    module = types.ModuleType(f"codereval_handlers_{path.stem}")
    module.__file__ = str(path)
    exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)
    return module
