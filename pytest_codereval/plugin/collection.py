"""Task files become test modules made in memory, so that every fixture, mark and plugin works on their items."""

from __future__ import annotations

import codecs
import copy
import fnmatch
import re
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..task.layering import DEFAULTS_FILE
from .resolving import resolved
from .run_task import run_task

if TYPE_CHECKING:
    from ..task.loader import LoadedTask
    from ..task.trials import TrialSpec

SUFFIXES = (".yaml", ".yml")
CLAIM = re.compile(r"^(task_id|success_criteria)[ \t]*:", re.MULTILINE)
_NAMES_TASK = pytest.StashKey[dict[str, bool]]()
FIRST_FILES = pytest.StashKey[dict[str, Path]]()
TRIAL = "codereval_trial"
"""Attribute of a task's function that holds its first trial."""

CASE_FIXTURE = "_codereval_case"
ACTING_MARKS = frozenset(
    {
        *("skip", "skipif", "xfail", "parametrize", "usefixtures", "filterwarnings", "tryfirst", "trylast"),
        *("timeout", "flaky", "repeat", "order", "run", "first", "last", "dependency", "xdist_group", "forked"),
        *("asyncio", "anyio", "trio", "django_db", "benchmark", "no_cover", "codereval"),
    }
)
"""Marks that act on a test; a tag of such a name never becomes a mark. `--codereval-tags` selects it."""


class CoderEvalWarning(pytest.PytestWarning):
    """A task file says something that has no effect."""


CoderEvalWarning.__module__ = "pytest_codereval"


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix not in SUFFIXES or file_path.name == DEFAULTS_FILE:
        return None
    if parent.session.isinitpath(file_path) or is_claimed(file_path, parent.config):
        return TaskFile.from_parent(parent, path=file_path)
    return None


def is_claimed(path: Path, config: pytest.Config) -> bool:
    """Whether a YAML file is a task file by its text or by the ini file."""
    if path.name == DEFAULTS_FILE:
        return False
    if _is_named(path, config):
        return True
    try:
        data = path.read_bytes()
    except OSError:
        return False
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return CLAIM.search(data.decode("utf-16" if wide else "utf-8-sig", "replace")) is not None


def names_task(nodeid: str, config: pytest.Config) -> bool:
    """Whether a node id belongs to a task file, for processes that have not collected it."""
    file = nodeid.partition("::")[0]
    known = config.stash.setdefault(_NAMES_TASK, {})
    if file not in known:
        path = config.rootpath / file
        known[file] = path.suffix in SUFFIXES and is_claimed(path, config)
    return known[file]


def _is_named(path: Path, config: pytest.Config) -> bool:
    inside = path.is_relative_to(config.rootpath)
    relative = path.relative_to(config.rootpath).as_posix() if inside else path.as_posix()
    globs = config.getini("codereval_files")
    return any(fnmatch.fnmatch(relative if "/" in glob else path.name, glob) for glob in globs)


class TaskFile(pytest.Module):
    """One task file. Its module holds one function, named like the task and parametrized with the trials."""

    def _getobj(self) -> types.ModuleType:
        from ..errors import CoderEvalError

        try:
            loaded, trials = self._load()
        except CoderEvalError as error:
            raise self.CollectError(str(error)) from None
        module = types.ModuleType(f"codereval_{self.path.stem}")
        module.__file__ = str(self.path)
        module.__doc__ = loaded.task.description
        if trials:
            module.__dict__[loaded.task.task_id] = self._function(loaded, trials, module.__name__)
        return module

    def _load(self) -> tuple[LoadedTask, tuple[TrialSpec, ...]]:
        from ..errors import Problem, TaskFileError

        task = resolved(self.config, self.path)
        loaded = task.loaded
        for warning in loaded.warnings:
            text = f"{warning.key}: {warning.message}" if warning.key else warning.message
            try:
                warnings.warn_explicit(text, CoderEvalWarning, str(self.path), warning.line)
            except CoderEvalWarning:
                raise TaskFileError((warning,)) from None
        first = self.config.stash.setdefault(FIRST_FILES, {}).setdefault(loaded.task.task_id, self.path)
        if first != self.path:
            message = f"{loaded.task.task_id!r} is used by {first} already; a task id must be unique in a session"
            raise TaskFileError((Problem(self._shown_path(), loaded.line, 1, "task_id", message),))
        return loaded, task.trials

    def _shown_path(self) -> str:
        here = self.config.invocation_params.dir
        return str(self.path.relative_to(here)) if self.path.is_relative_to(here) else str(self.path)

    def _function(self, loaded: LoadedTask, trials: tuple[TrialSpec, ...], module: str) -> Callable[..., None]:
        task = loaded.task
        code = run_task.__code__.replace(co_filename=str(self.path), co_firstlineno=loaded.line)
        function: Any = types.FunctionType(code, run_task.__globals__, task.task_id, run_task.__defaults__)
        function.__doc__ = task.description
        function.__module__ = module
        function.__test__ = True
        setattr(function, TRIAL, trials[0])
        function.pytestmark = [_mark(tag, self.config) for tag in task.tags if tag not in ACTING_MARKS]
        if task.skip:
            reason = task.skip if isinstance(task.skip, str) else "skip: true in the task file"
            pytest.mark.skip(reason=reason)(function)
        if len(trials) > 1:
            parameters = [pytest.param(trial, id=trial.label) for trial in trials]
            pytest.mark.parametrize(CASE_FIXTURE, parameters, indirect=True)(function)
        return function  # type: ignore[no-any-return]


def _mark(tag: str, config: pytest.Config) -> pytest.Mark:
    """A mark named like the tag. A tag with a colon cannot be registered, so it is made past the registry."""
    if ":" not in tag:
        line = f"{tag}: tag of task files"
        if line not in config.getini("markers"):
            config.addinivalue_line("markers", line)
    mark = copy.copy(pytest.mark.codereval.mark)
    object.__setattr__(mark, "name", tag)
    return mark


def trial_of(item: pytest.Item) -> TrialSpec | None:
    """The trial that an item of a task file runs, None for every other item."""
    if not isinstance(item, pytest.Function) or not isinstance(item.parent, TaskFile):
        return None
    parameters: Any = item.callspec.params if hasattr(item, "callspec") else {}
    trial: TrialSpec = parameters.get(CASE_FIXTURE, getattr(item.obj, TRIAL))
    return trial
