"""Criterion type cli_called: a recorded command-line tool was called so often, with such arguments."""

from __future__ import annotations

import dataclasses
import posixpath
import shlex

from ..errors import JudgingError
from ..recorder.argv import ArgvPattern, Comparison, compare, pattern_of
from ..recorder.invocation import Invocation
from ..recorder.log import DEFAULT_LOG, parse_log
from ..sandbox.workspace import Unreadable, Workspace
from ..task.cli_models import CliCalled
from ..text import clean
from .contract import Evidence, Judgement

LOG_LIMIT = 64 * 1024 * 1024
"""Bytes of a hand-written mock's log; a larger one cannot be used."""

MAX_LINES = 100_000
"""Lines of such a log; one with more cannot be used."""

SHOWN_CALLS = 3
SHOWN_CHARACTERS = 120


@dataclasses.dataclass(frozen=True)
class _Compared:
    call: Invocation
    comparison: Comparison


def check(criterion: CliCalled, evidence: Evidence) -> Judgement:
    """Score 1 when the number of matching calls lies in the bounds, else 0.

    A log that is missing or cannot be used is a fail also where no call is allowed. Raises JudgingError when the
    recorder's own evidence is damaged.
    """
    if _recorded(criterion, evidence):
        if evidence.invocations.faults:
            raise JudgingError("calls may be missing: " + "; ".join(evidence.invocations.faults))
        _refuse_unseen(criterion, evidence)
        return _judge(criterion, evidence.invocations.invocations)
    try:
        text = evidence.workspace.read_text(criterion.log, LOG_LIMIT)
    except Unreadable as error:
        return Judgement(0.0, f"the log of calls cannot be used: {error}", _hint(criterion, evidence))
    if text.count("\n") > MAX_LINES:
        return Judgement(0.0, f"the log of calls cannot be used: {criterion.log} has more than {MAX_LINES} lines")
    parsed = parse_log(text)
    told = _sentinel(criterion.log, evidence.workspace)
    errors = [error for error in parsed.errors if criterion.tool in (None, error.tool)]
    if told:
        return Judgement(0.0, told)
    if errors:
        what = f"{errors[0].field}: {errors[0].message}"
        return Judgement(0.0, f"the mock that wrote {criterion.log} reports an error: {_short(what)}")
    if parsed.unusable:
        lines = "1 line" if parsed.unusable == 1 else f"{parsed.unusable} lines"
        verb = "holds" if parsed.unusable == 1 else "hold"
        return Judgement(0.0, f"the log of calls cannot be used: {lines} of {criterion.log} {verb} no call")
    return _judge(criterion, parsed.invocations)


def _refuse_unseen(criterion: CliCalled, evidence: Evidence) -> None:
    """A most allowed number of calls cannot be judged for a tool that shells have built in."""
    unseen = evidence.invocations.builtin_tools & (
        {criterion.tool} if criterion.tool else evidence.invocations.recorded_tools
    )
    if criterion.max_count is not None and unseen:
        names = ", ".join(sorted(unseen))
        raise JudgingError(f"{names}: a builtin of shells, so calls by a shell were not recorded and max_count is open")


def _recorded(criterion: CliCalled, evidence: Evidence) -> bool:
    """Whether the recorder, and not a file that a mock writes, knows the calls that the criterion asks for."""
    tools = evidence.invocations.recorded_tools
    if posixpath.normpath(criterion.log) != DEFAULT_LOG:
        return False
    return bool(tools) if criterion.tool is None else criterion.tool in tools


def _hint(criterion: CliCalled, evidence: Evidence) -> str:
    tools = evidence.invocations.recorded_tools
    if criterion.tool is not None and tools:
        return f"{criterion.tool} is not recorded; sandbox.record_cli names {', '.join(sorted(tools))}"
    return "" if tools else "sandbox.record_cli names no tool, so a mock must write this file"


def _sentinel(log: str, workspace: Workspace) -> str:
    """What `<log>.error` says; a mock writes it when it could not write a call to its log."""
    path = f"{log}.error"
    if not workspace.exists(path):
        return ""
    try:
        lines = [line for line in workspace.read_text(path, LOG_LIMIT).split("\n") if line.strip()]
    except Unreadable as error:
        return f"the mock says that calls are missing: {error}"
    first = f", the first because of: {_short(lines[0])}" if lines else ""
    return f"the mock could not log {len(lines) or 'some'} calls{first}"


def _judge(criterion: CliCalled, calls: tuple[Invocation, ...]) -> Judgement:
    pattern = pattern_of(criterion)
    compared = [_Compared(call, _compare(criterion, pattern, call)) for call in calls]
    matching = [item for item in compared if item.comparison.matched]
    others = [item for item in compared if not item.comparison.matched]
    count = len(matching)
    found = f"{count} matching {'call' if count == 1 else 'calls'}, {_expected(criterion)}"
    if criterion.max_count is not None and count > criterion.max_count:
        return Judgement(0.0, found, _listed(matching))
    if count < criterion.min_count:
        others.sort(key=lambda item: item.comparison.closeness, reverse=True)
        if not others:
            return Judgement(0.0, f"{found}; no {'other ' if matching else ''}call was recorded")
        return Judgement(0.0, found, f"nearest of {_calls(len(calls))} recorded:\n{_listed(others)}")
    if not count:
        unproven = "guard unproven: a pattern with a typo would match nothing either"
        return Judgement(1.0, f"{found}, of {_calls(len(calls))} recorded ({unproven})")
    return Judgement(1.0, found)


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls"


def _compare(criterion: CliCalled, pattern: ArgvPattern, call: Invocation) -> Comparison:
    if criterion.tool is not None and call.tool != criterion.tool:
        got = repr(call.tool) if call.tool else "no name"
        return Comparison(False, f"tool: expected {criterion.tool!r}, got {got}", (-2, 0, 0))
    return compare(pattern, call.argv)


def _expected(criterion: CliCalled) -> str:
    least, most = criterion.min_count, criterion.max_count
    if most is None:
        return f"expected at least {least}"
    if least == most:
        return f"expected {least}" if least else "expected none"
    return f"expected at most {most}" if not least else f"expected {least} to {most}"


def _listed(items: list[_Compared]) -> str:
    lines = []
    for item in items[:SHOWN_CALLS]:
        difference = f"  <- {_short(item.comparison.difference, 2)}" if item.comparison.difference else ""
        lines.append(f"  {_short(shlex.join([item.call.tool or '(unnamed)', *item.call.argv]))}{difference}")
    if len(items) > SHOWN_CALLS:
        lines.append(f"  +{len(items) - SHOWN_CALLS} more")
    return "\n".join(lines)


def _short(text: str, times: int = 1) -> str:
    """`text` in one line of at most so many characters."""
    limit = SHOWN_CHARACTERS * times
    line = clean(text[: limit + 1]).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
