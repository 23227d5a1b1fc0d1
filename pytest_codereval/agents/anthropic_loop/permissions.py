"""Which of the loop's tools a task lets its agent use, by the names of the common vocabulary."""

from __future__ import annotations

from collections.abc import Iterable

from ...errors import AgentError, Cause
from ...task.nearest import hint

TOOLS = ("Bash", "Read", "Write", "Edit", "Skill")
"""All that the loop has."""

OTHERS = tuple(
    """
    Agent AskUserQuestion BashOutput EnterPlanMode ExitPlanMode Glob Grep KillBash KillShell LS ListMcpResourcesTool
    MultiEdit NotebookEdit NotebookRead ReadMcpResourceTool SlashCommand Task TaskCreate TaskGet TaskList TaskOutput
    TaskStop TaskUpdate TodoRead TodoWrite ToolSearch WebFetch WebSearch
    """.split()
)
"""Names that other agents have a tool for."""


def permitted(allowed: Iterable[str] | None, disallowed: Iterable[str] | None) -> frozenset[str]:
    """The tools of `TOOLS` that may be used; None allows all. Names of tools that the loop lacks are passed over.

    Raises AgentError(CONFIGURATION) for patterns such as `Bash(git *)` and for names that no agent has.
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
        if name in TOOLS:
            known.add(name)
        elif name not in OTHERS and not name.startswith("mcp__"):
            near = hint(name, (*TOOLS, *OTHERS))
            raise AgentError(Cause.CONFIGURATION, f"{key}: no tool is called {name!r}{near}")
    return known
