"""Command-line options, ini settings, and what they come to for the trials of this session."""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError
from . import isolation, signals, spending

if TYPE_CHECKING:
    from ..store.run_directory import RunDirectory
    from ..trial import TrialSettings

SETTINGS = pytest.StashKey["TrialSettings"]()
RUN_DIRECTORY = pytest.StashKey["RunDirectory"]()
RUN_DIRECTORY_PATH = pytest.StashKey[Path]()
DEFAULT_PARENT = ".codereval"
WORKER_KEY = "codereval_run_directory"
"""Name under which the controller tells its workers the run directory."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("codereval", "tasks for coding agents")
    group.addoption(
        "--codereval-repeat",
        type=int,
        metavar="N",
        help="run every task (and dataset row) N times, each an independent attempt and an item of its own "
        "(default: as the task says)",
    )
    group.addoption(
        "--codereval-tags",
        metavar="EXPR",
        help="run only tasks whose tags fit the expression, e.g. 'smoke and not mode:build'",
    )
    group.addoption(
        "--codereval-run-dir",
        metavar="DIR",
        help="directory for the records of this session (default: a new one in .codereval of the root directory)",
    )
    group.addoption(
        "--codereval-allow-unevaluated",
        action="store_true",
        help="let the session end with exit status 0 although trials were not evaluated",
    )
    parser.addini(
        "codereval_files",
        "globs of YAML files that are task files whatever they contain (with `/`: relative to the root directory)",
        type="args",
        default=[],
    )
    parser.addini(
        "codereval_env_passthrough",
        "names and globs of environment variables that trials may see",
        type="args",
        default=[],
    )
    parser.addini("codereval_junit", "testcases in JUnit XML: both | tasks (without one per criterion)", default="both")


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from .. import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "codereval(task, row=None): run this task file for the test; see the codereval_run fixture"
    )
    _check(config)
    config.stash[RUN_DIRECTORY_PATH] = _run_directory_path(config)


def _check(config: pytest.Config) -> None:
    if config.getoption("codereval_run_dir") == "":
        raise pytest.UsageError("--codereval-run-dir: expected a directory")
    if (repeat := config.getoption("codereval_repeat")) is not None and not 1 <= repeat <= 999:
        raise pytest.UsageError(f"--codereval-repeat {repeat}: expected 1 to 999")
    if config.getini("codereval_junit") not in ("both", "tasks"):
        raise pytest.UsageError(f"ini codereval_junit {config.getini('codereval_junit')!r}: expected both or tasks")


def is_worker(config: pytest.Config) -> bool:
    """Whether this process is a worker of pytest-xdist."""
    return hasattr(config, "workerinput")


def given_run(config: pytest.Config, option: str) -> Path | None:
    """The run directory that `--codereval-regrade` or `--codereval-resume` names."""
    given = config.getoption(f"codereval_{option}")
    return Path(config.invocation_params.dir / given).resolve() if given else None


def _run_directory_path(config: pytest.Config) -> Path:
    if is_worker(config):
        return Path(config.workerinput[WORKER_KEY])  # type: ignore[attr-defined]
    if (continued := given_run(config, "resume")) is not None:
        return continued
    given = config.getoption("codereval_run_dir")
    if given:
        return Path(config.invocation_params.dir / given).resolve()
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%S")
    return config.rootpath / DEFAULT_PARENT / f"{stamp}-{os.getpid()}"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    node.workerinput[WORKER_KEY] = str(node.config.stash[RUN_DIRECTORY_PATH])  # type: ignore[attr-defined]


def settings(config: pytest.Config) -> TrialSettings:
    """The settings of this session's trials, made when the first trial needs them."""
    made = config.stash.get(SETTINGS, None)
    if made is None:
        from ..redaction import hide_secrets_of
        from ..trial import TrialSettings

        hide_secrets_of(os.environ)
        make_parent(config)
        signals.install(config)
        made = config.stash[SETTINGS] = TrialSettings(
            run_directory=run_directory(config),
            rootdir=config.rootpath,
            agent_override=config.getoption("codereval_agent"),
            agent_default=config.getini("codereval_agent") or None,
            model_override=config.getoption("codereval_model"),
            env_passthrough=tuple(config.getini("codereval_env_passthrough")),
            choice=isolation.choice(config),
            session=spending.session(config, run_directory(config)),
            execute_only=config.getoption("codereval_execute_only"),
        )
    return made


def make_parent(config: pytest.Config) -> None:
    """Make the folder of run directories that nobody asked for, out of version control's sight."""
    parent = config.stash[RUN_DIRECTORY_PATH].parent
    if config.getoption("codereval_run_dir") or given_run(config, "resume") or parent.exists():
        return
    try:
        parent.mkdir(parents=True, exist_ok=True)
        (parent / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise CoderEvalError(f"{parent} cannot be made ({error.strerror}); give --codereval-run-dir") from None


def run_directory(config: pytest.Config) -> RunDirectory:
    """The run directory of this session, not yet claimed."""
    made = config.stash.get(RUN_DIRECTORY, None)
    if made is None:
        from ..store.run_directory import RunDirectory

        made = config.stash[RUN_DIRECTORY] = RunDirectory(config.stash[RUN_DIRECTORY_PATH])
    return made
