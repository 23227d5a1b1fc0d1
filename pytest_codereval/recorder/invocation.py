"""Recorded calls of shadowed command-line tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from .options import OptionTable


@dataclasses.dataclass(frozen=True)
class Invocation:
    """One recorded call.

    `argv` is what followed the tool's name; bytes that are not UTF-8 are kept as surrogate escapes. `cwd` is relative
    to the workspace (`.` for the workspace itself), absolute outside of it. `time` and `ended` are seconds since the
    epoch; no `ended` means that the call was killed, or still ran when everything was. `exit_status` is what the caller
    saw, None when unknown. `sequence` counts from 1 over all tools. `answered_by` is `constant`, `rule N`, `handler`,
    `cassette`, `passthrough` or `fallback`, and `unanswered` when the agent ended before. `stdin` is None unless it was
    read.
    """

    sequence: int
    tool: str
    argv: tuple[str, ...]
    cwd: str = ""
    time: float = 0.0
    ended: float | None = None
    exit_status: int | None = None
    answered_by: str = "constant"
    stdin: str | None = None


@dataclasses.dataclass(frozen=True)
class InvocationLog:
    """All calls of a trial, the tools that were shadowed, and what is wrong with the evidence.

    `recorded_tools` is empty when nothing was shadowed. `builtin_tools` are those of them that shells have built in:
    calls by a shell were not seen. A non-empty `faults` makes the trial an error: calls may be missing. `options` are
    the flags that a tool declares. `unmatched` are the sequence numbers of calls that no rule, handler or cassette
    answered although there was one to do so, or that still waited for their answer when the agent ended. `shim_dir` is
    where the shims lay. Of `uncovered_tools` there is a real program: calls of it by an absolute path were not seen.
    """

    invocations: tuple[Invocation, ...] = ()
    recorded_tools: frozenset[str] = frozenset()
    faults: tuple[str, ...] = ()
    builtin_tools: frozenset[str] = frozenset()
    options: Mapping[str, OptionTable] = dataclasses.field(default_factory=dict)
    unmatched: tuple[int, ...] = ()
    shim_dir: str = ""
    uncovered_tools: frozenset[str] = frozenset()
