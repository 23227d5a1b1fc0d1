"""Recorded calls of shadowed command-line tools."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Invocation:
    """One recorded call.

    `argv` is what followed the tool's name; bytes that are not UTF-8 are kept as surrogate escapes. `time` is seconds
    since the epoch. `exit_status` is what the caller saw, None when unknown. `sequence` counts from 1 over all tools.
    """

    sequence: int
    tool: str
    argv: tuple[str, ...]
    cwd: str = ""
    time: float = 0.0
    exit_status: int | None = None
    answered_by: str = "constant"


@dataclasses.dataclass(frozen=True)
class InvocationLog:
    """All calls of a trial, the tools that were shadowed, and what is wrong with the evidence.

    `recorded_tools` is empty when nothing was shadowed. `builtin_tools` are those of them that shells have built in:
    calls by a shell were not seen. A non-empty `faults` makes the trial an error: calls may be missing.
    """

    invocations: tuple[Invocation, ...] = ()
    recorded_tools: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()
    builtin_tools: frozenset[str] = frozenset()
