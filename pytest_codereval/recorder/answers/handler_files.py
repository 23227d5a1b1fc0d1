"""Finding the Python function that a `handler:` names by its file or module."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import os
import re
import sys
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


def find_handler(
    text: str, folder: Path, by_name: FindByName, modules: dict[Path, types.ModuleType] | None = None
) -> Handler:
    """Return what `text` names: `file.py:function` relative to `folder`, `module:function`, or a name for `by_name`.

    A file is executed anew unless it is among `modules`, where it is put. Raises TrialError(CONFIGURATION) when it is
    not there, cannot be imported, or is no plain function of a call.
    """
    if match := _IN_FILE.fullmatch(text):
        path = host_path(match["place"], folder, "handler")
        modules = {} if modules is None else modules
        if path not in modules:
            modules[path] = _checked(text, lambda: _executed(path))
        module = modules[path]
    elif match := _IN_MODULE.fullmatch(text):
        place = match["place"]
        module = _checked(text, lambda: importlib.import_module(place))
    else:
        return _refused_unless_plain(by_name(text), text)
    return _refused_unless_plain(_function_of(module, match["function"], text), text)


def source_of(handler: Handler) -> Path | None:
    """The file that holds the code of a handler, where there is one."""
    try:
        code: Any = inspect.unwrap(handler)
        while isinstance(code, functools.partial):
            code = inspect.unwrap(code.func)
        found = inspect.getsourcefile(code if inspect.isroutine(code) else type(code))
    except (TypeError, ValueError):
        return None
    path = Path(found).absolute() if found else None
    return path if path is not None and path.is_file() else None


def is_fixture(found: object) -> bool:
    """Whether an object is the definition of a pytest fixture, which is no function to call."""
    return any(mark in dir(found) for mark in _MARKS_OF_FIXTURES)


def _function_of(module: types.ModuleType, name: str, text: str) -> Handler:
    found: Any = getattr(module, name, None)
    if is_fixture(found):
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
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise TrialError(Cause.CONFIGURATION, f"handler {text!r}: {type(error).__name__}: {error}") from error


def _executed(path: Path) -> types.ModuleType:
    """Run the file as a module of its own. Nothing is written beside it, for the task's folder must stay as it is.

    The module has a place in `sys.modules`, where dataclasses and the like look for it, until the file is run again.
    """
    stat = path.stat()
    code = _compiled(path, stat.st_mtime_ns, stat.st_size)
    name = f"codereval_handlers_{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@functools.lru_cache(maxsize=256)
def _compiled(path: Path, _changed: int, _size: int) -> types.CodeType:
    return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
