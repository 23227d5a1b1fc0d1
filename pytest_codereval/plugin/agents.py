"""Which agent and which model run the tasks, and the agents that plugins bring."""

from __future__ import annotations

import pytest

from ..errors import CoderEvalError

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
    for what, value in (
        ("--codereval-agent", config.getoption("codereval_agent")),
        ("ini codereval_agent", config.getini("codereval_agent")),
    ):
        if value:
            _check(config, what, value)
    if config.getoption("codereval_model") == "":
        raise pytest.UsageError("--codereval-model: expected the name of a model")


def _check(config: pytest.Config, what: str, name: str) -> None:
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

    given = config.hook.pytest_codereval_agents(config=config)
    try:
        add_agents(kind for kinds in given for kind in kinds)
    except CoderEvalError as error:
        raise pytest.UsageError(str(error)) from None
