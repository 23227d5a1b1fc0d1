"""Which agent and which model run the tasks, and the agents that plugins bring."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from ..errors import CoderEvalError

if TYPE_CHECKING:
    from ..agents.registry import AgentKind

_ADDED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("codereval", "tasks for coding agents")
    group.addoption(
        "--codereval-agent",
        metavar="NAME",
        help="agent that runs the tasks, in place of the one each task names (a task with agent `none` keeps it)",
    )
    group.addoption(
        "--codereval-model",
        metavar="NAME",
        help="model that the agents ask, in place of the one each task names",
    )
    parser.addini("codereval_agent", "agent of the tasks that name none", default="")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    for option, what in (("agent", "an agent"), ("model", "a model")):
        if config.getoption(f"codereval_{option}") == "":
            raise pytest.UsageError(f"--codereval-{option}: expected the name of {what}")
    for what, value in (
        ("--codereval-agent", config.getoption("codereval_agent")),
        ("ini codereval_agent", config.getini("codereval_agent")),
    ):
        if value:
            check_agent(config, what, value)
    if config.hook.pytest_codereval_agents.get_hookimpls():
        add_agents_of_plugins(config)


def check_agent(config: pytest.Config, what: str, name: str) -> None:
    """Raise pytest.UsageError when no agent that can run has this name."""
    from ..agents.registry import names
    from ..task.nearest import hint

    add_agents_of_plugins(config)
    if name not in names():
        raise pytest.UsageError(f"{what} {name!r}: expected one of {', '.join(names())}{hint(name, names())}")


def add_agents_of_plugins(config: pytest.Config) -> None:
    """Ask plugins and conftest files for their agents, once in a session, before the first task is loaded."""
    if config.stash.get(_ADDED, False):
        return
    config.stash[_ADDED] = True
    from ..agents.registry import add_agents

    try:
        add_agents(kind for kinds in config.hook.pytest_codereval_agents(config=config) for kind in _listed(kinds))
    except CoderEvalError as error:
        raise pytest.UsageError(str(error)) from None


def _listed(kinds: object) -> tuple[AgentKind, ...]:
    """What one implementation of the hook gave, if it is what the hook asks for."""
    from ..agents.registry import AgentKind

    if not isinstance(kinds, Iterable):
        raise pytest.UsageError(f"pytest_codereval_agents: expected a list of AgentKind, found {kinds!r:.200}")
    found = tuple(kinds)
    for kind in found:
        if not isinstance(kind, AgentKind):
            raise pytest.UsageError(f"pytest_codereval_agents: expected a list of AgentKind, found {kind!r:.200} in it")
    return found
