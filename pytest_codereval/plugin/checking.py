"""Task files checked without being run, and the schema of their format: `python -m pytest_codereval lint | schema`.

Both happen inside pytest, so that agents, drivers and criteria of plugins and conftest files are known.
"""

from __future__ import annotations

import fnmatch
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError, Problem, TaskFileError
from ..text import clean
from .agents import add_agents_of_plugins
from .collection import SUFFIXES, is_claimed
from .criteria import add_criteria_of_plugins
from .hidden_folders import ORDINARY_NAMES, is_hidden_by_default
from .isolation import add_drivers_of_plugins
from .resolving import resolved

if TYPE_CHECKING:
    from ..task.resolution import Resolved

KINDS = ("task", "experiment", "codereval")
"""The kinds of files that have a schema."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("codereval", "tasks for coding agents")
    group.addoption(
        "--codereval-lint",
        action="store_true",
        help="check all task files, print every problem and warning, and run nothing; the exit status is 1 when there "
        "is a problem, 5 when there is no task file",
    )
    group.addoption(
        "--codereval-schema",
        choices=KINDS,
        help="print the JSON Schema of task files, experiment files or codereval.yaml, and run nothing",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> int | None:
    kind = config.getoption("codereval_schema")
    if kind is None:
        return None
    from ..task.json_schema import schema_of

    add_agents_of_plugins(config)
    add_criteria_of_plugins(config)
    add_drivers_of_plugins(config)
    print(json.dumps(schema_of(kind), indent=2))
    return 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> object:
    """Nothing is collected, and so nothing runs, where task files are only checked."""
    if not session.config.getoption("codereval_lint"):
        return None
    session.config.pluginmanager.register(_Lint(session.config), "codereval-lint")
    return True


class _Lint:
    """Checks all files that the command line names, in place of running them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._status = 0
        self._ids: dict[str, Path] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> object:
        files = list(_files(self._config))
        problems: dict[str, None] = {}
        warnings: dict[str, None] = {}
        for path in files:
            found, doubts = self._check(path)
            new = [
                *(line for line in found if line not in problems),
                *(line for line in doubts if line not in warnings),
            ]
            problems.update(dict.fromkeys(found))
            warnings.update(dict.fromkeys(doubts))
            for line in new:
                print(clean(line))
        print(f"{len(files)} task files: {len(problems)} problems, {len(warnings)} warnings")
        self._status = 1 if problems else 0 if files else int(pytest.ExitCode.NO_TESTS_COLLECTED)
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        session.exitstatus = self._status

    def _check(self, path: Path) -> tuple[list[str], list[str]]:
        try:
            task = resolved(self._config, path)
        except TaskFileError as error:
            return list(map(str, error.problems)), []
        except CoderEvalError as error:
            return [f"{path}: {error}"], []
        return self._twice(path, task), [_as_warning(problem) for problem in task.loaded.warnings]

    def _twice(self, path: Path, task: Resolved) -> list[str]:
        task_id = task.loaded.task.task_id
        first = self._ids.setdefault(task_id, path)
        if first == path:
            return []
        message = f"{task_id!r} is used by {first} already; a task id must be unique in a session"
        return [str(Problem(str(path), task.loaded.line, 1, "task_id", message))]


def _as_warning(problem: Problem) -> str:
    key = f"{problem.key}: " if problem.key else ""
    return f"{problem.path}:{problem.line}:{problem.column}: warning: {key}{problem.message}"


def _files(config: pytest.Config) -> Iterator[Path]:
    """The task files below the places that the command line names, each once, in order."""
    seen = set()
    for argument in config.args:
        place = (config.invocation_params.dir / argument.partition("::")[0]).absolute()
        if not place.exists():
            raise pytest.UsageError(f"file or directory not found: {argument}")
        for path in [place] if place.is_file() else _below(place, config):
            if path not in seen and path.suffix in SUFFIXES:
                seen.add(path)
                yield path


def _below(folder: Path, config: pytest.Config) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_entered(Path(where, name), config))
        for name in sorted(names):
            path = Path(where, name)
            if path.suffix in SUFFIXES and is_claimed(path, config):
                yield path


def _is_entered(folder: Path, config: pytest.Config) -> bool:
    if (folder / "trials").is_dir() and (folder / "lock").is_file():
        return False
    if not any(fnmatch.fnmatch(folder.name, pattern) for pattern in config.getini("norecursedirs")):
        return True
    return folder.name in ORDINARY_NAMES and is_hidden_by_default(folder, config)
