"""Which of the loop's tools a task lets its agent use, by the names of the common vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import AgentError, Cause

TOOLS = ("Bash", "Read", "Write", "Edit", "Skill")
"""All that the loop has."""


def permitted(allowed: Iterable[str] | None, disallowed: Iterable[str] | None) -> frozenset[str]:
    """The tools of `TOOLS` that may be used; None allows all. Names of tools that the loop lacks are passed over.

    Raises AgentError(CONFIGURATION) for patterns such as `Bash(git *)` and for names in the wrong case.
    """
    chosen = set(TOOLS) if allowed is None else _known("agent.allowed_tools", allowed)
    return frozenset(chosen - _known("agent.disallowed_tools", disallowed or ()))


def _known(key: str, names: Iterable[str]) -> set[str]:
    known = set()
    for name in map(str.strip, names):
        if "(" in name:
            raise AgentError(
                Cause.CONFIGURATION,
                f"{key}: the agent anthropic allows or forbids whole tools only, so {name!r} cannot be held to",
            )
        near = next((tool for tool in TOOLS if tool.casefold() == name.casefold()), None)
        if near is not None and near != name:
            raise AgentError(Cause.CONFIGURATION, f"{key}: no tool is called {name!r}; did you mean {near!r}?")
        if near is not None:
            known.add(near)
    return known
