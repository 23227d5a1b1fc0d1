"""The entry: what a piece of shell text ran, by the status of the whole."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from .evaluate import Evaluator
from .lowering import read_script
from .outcomes import ANY, SUBSHELL, Ends, Mapped, Unsure, Verdict
from .program import Ran, ShellProgram
from .scope import Scope

_CONTINUED_END = re.compile(r"(?<!\\)((?:\\\\)*)\\\r?\n\Z")
"""A line of a text that goes on where nothing follows."""


def understand(text: str, status: int | None, *, succeeded: bool | None, variables: Mapping[str, str]) -> ShellProgram:
    """See the package's `understand`."""
    return _understand(text, status, succeeded, tuple(sorted(variables.items())))


@functools.lru_cache(maxsize=1024)
def _understand(
    text: str, status: int | None, succeeded: bool | None, variables: tuple[tuple[str, str], ...]
) -> ShellProgram:
    try:
        return _judged(text, status, succeeded, dict(variables))
    except RecursionError:
        return ShellProgram((), parsed=False, unparsed=(text,))


def _judged(text: str, status: int | None, succeeded: bool | None, variables: dict[str, str]) -> ShellProgram:
    if status is not None:
        succeeded = status == 0
    killable = not succeeded and (status is None or status < 0 or status > 128 or status == 124)
    script = read_script(_CONTINUED_END.sub(r"\1\n", text))
    run = Evaluator(killable=killable)
    block = run.block(script.block, Scope(dict(variables), set(variables)))
    trace = Mapped(Unsure(block) if script.unparsed else block, SUBSHELL)
    allowed = ANY | Ends.KILLED
    if succeeded is not None and not any(changes for _, changes in run.handlers):
        allowed = Ends.OK if succeeded else Ends.FAIL | Ends.KILLED
    trace.judge(Verdict(allowed, Ran.YES, "no status"))
    for handler, _ in run.handlers:
        handler.judge(Verdict(handler.ends, Ran.MAYBE, "trap"))
    torn = bool(script.unparsed or run.unparsed)
    for function in run.not_called():
        function.judge(Verdict(function.ends, Ran.MAYBE if torn else Ran.NO, "not understood", unsure=torn))
    unparsed = (*script.unparsed, *run.unparsed)
    return ShellProgram(tuple(run.commands), parsed=not unparsed, unparsed=unparsed)
