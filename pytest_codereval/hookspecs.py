"""The extension points, in pytest's own way: implement them in a conftest.py or in a plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .agents.registry import AgentKind
    from .criteria.registry import CriterionKind
    from .sandbox.drivers import Driver


@pytest.hookspec
def pytest_codereval_agents(config: pytest.Config) -> Iterable[AgentKind]:  # type: ignore[empty-body]
    """Return agents of your own, which tasks then name by ``agent: {type: NAME}``.

    Called once in each process, before the first task is loaded, so implement it in a plugin or in the conftest.py of
    the root directory. Two agents of one name are an error that names both.
    """


@pytest.hookspec
def pytest_codereval_criteria(config: pytest.Config) -> Iterable[CriterionKind]:  # type: ignore[empty-body]
    """Return types of criteria of your own, which tasks then name by ``type: NAME`` in `success_criteria`.

    Each has a model, which says what an author may write, and a checker. Called once in each process, before the first
    task is loaded, so implement it in a plugin or in the conftest.py of the root directory. Two types of one name are
    an error that names both.
    """


@pytest.hookspec
def pytest_codereval_drivers(config: pytest.Config) -> Iterable[Driver]:  # type: ignore[empty-body]
    """Return drivers of your own, which tasks then name by ``sandbox: {driver: NAME}``.

    Each makes sandboxes; `pytest_codereval.sandbox.conformance` holds the checks that these must pass. Called once in
    each process, before the first task is loaded, so implement it in a plugin or in the conftest.py of the root
    directory. Two drivers of one name are an error that names both.
    """


@pytest.hookspec
def pytest_codereval_trial_finished(config: pytest.Config, summary: Mapping[str, Any], folder: Path) -> None:
    """Called in the process that ran a trial, once its record is written.

    :param summary: status, message, score, criteria, tokens and cost of the trial as plain data.
    :param folder: the trial's folder in the run directory, with `record.json` and the sealed `workspace`.
    """
