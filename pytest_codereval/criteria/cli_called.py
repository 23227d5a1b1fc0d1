"""Criterion type cli_called: a recorded command-line tool was called so often, with such arguments, in an order."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator, Sequence

from ..errors import JudgingError
from ..recorder.invocation import Invocation
from ..recorder.log import DEFAULT_LOG, parse_log
from ..sandbox.workspace import Unreadable, Workspace
from ..task.cli_models import CliCalled
from ..text import clean, head
from .commands.cli_claims import claimed_calls, named_in_code
from .commands.cli_facets import CallSource, Compared, SeenCall
from .commands.cli_order import Timeline
from .commands.recorded_calls import RecordedCalls
from .contract import Evidence, Judgement, Verdict

LOG_LIMIT = 64 * 1024 * 1024
"""Bytes of a hand-written mock's log; a larger one cannot be used."""

MAX_LINES = 100_000
"""Lines of such a log; one with more cannot be used."""

SHOWN_CALLS = 3
SHOWN_CHARACTERS = 120

UNPROVEN = "guard unproven: a pattern with a typo would match nothing either"


def check(criterion: CliCalled, evidence: Evidence) -> Judgement:
    """Score 1 when the number of calls that count lies in the bounds, else 0.

    A log that is missing or cannot be used is a fail also where no call is allowed. Raises JudgingError when the
    recorder's own evidence is damaged, and when a criterion that `after` or `before` names tells nothing of the order.
    """
    asked = _asked(criterion, evidence)
    if _recorded(criterion, evidence):
        if evidence.invocations.faults:
            raise JudgingError("calls may be missing: " + "; ".join(evidence.invocations.faults))
        _refuse_unseen(asked, evidence)
        return _judge(criterion, *_timeline(asked, evidence))
    try:
        text = evidence.workspace.read_text(criterion.log, LOG_LIMIT)
    except Unreadable as error:
        return Judgement(0.0, f"the log of calls cannot be used: {error}", _hint(criterion, evidence))
    if text.count("\n") > MAX_LINES:
        return Judgement(0.0, f"the log of calls cannot be used: {criterion.log} has more than {MAX_LINES} lines")
    parsed = parse_log(text)
    told = _sentinel(criterion.log, evidence.workspace)
    tools = _tools(asked)
    errors = [error for error in parsed.errors if tools is None or error.tool in tools]
    if told:
        return Judgement(0.0, told)
    if errors:
        what = f"{errors[0].field}: {errors[0].message}"
        return Judgement(0.0, f"the mock that wrote {criterion.log} reports an error: {_short(what)}")
    if parsed.unusable:
        lines = "1 line" if parsed.unusable == 1 else f"{parsed.unusable} lines"
        verb = "holds" if parsed.unusable == 1 else "hold"
        return Judgement(0.0, f"the log of calls cannot be used: {lines} of {criterion.log} {verb} no call")
    source = CallSource(recorded=False, options=evidence.invocations.options)
    return _judge(criterion, Timeline(_in_line(parsed.invocations), evidence.cli_patterns, source))


def live_polarities(criterion: CliCalled) -> frozenset[Verdict]:
    """Return the verdicts that `live_verdict` can ever give for this criterion, whatever others it is ordered by."""
    if posixpath.normpath(criterion.log) != DEFAULT_LOG:
        return frozenset()
    if criterion.max_count is not None:
        return frozenset((Verdict.FAIL,) if criterion.pass_threshold > 0 else ())
    return frozenset(() if criterion.before is not None else (Verdict.PASS,))


def live_verdict(criterion: CliCalled, evidence: Evidence) -> Verdict | None:
    """The verdict that is certain after the calls made so far, whatever is called later; None while there is none.

    `evidence.invocations` are the first calls of a run. Of a call without `ended` neither `exit_status` nor a `stdin`
    of None is final. The transcript is not looked at: what it claims may still turn out to have been recorded. A fail
    is certain once too many calls count. A pass is certain once enough count, unless `max_count` forbids more, or
    `before` asks for what a call past the recorder can still undo.
    """
    try:
        asked = _asked(criterion, evidence)
        if not criterion.enabled or not _recorded(criterion, evidence) or evidence.invocations.faults:
            return None
        _refuse_unseen(asked, evidence)
    except JudgingError:
        return None
    source = CallSource(live=True, options=evidence.invocations.options)
    timeline = Timeline(_in_line(evidence.invocations.invocations), evidence.cli_patterns, source)
    count = len(timeline.counting(criterion, sure=True))
    polarities = live_polarities(criterion)
    if criterion.max_count is not None:
        return Verdict.FAIL if count > criterion.max_count and Verdict.FAIL in polarities else None
    steady = not any(item.before for item in asked)
    return Verdict.PASS if steady and count >= criterion.min_count else None


def _asked(criterion: CliCalled, evidence: Evidence) -> list[CliCalled]:
    """The criterion, and those that it and they name in `after` and `before`."""
    asked: dict[str | None, CliCalled] = {}
    _follow(criterion, (), evidence, asked)
    return list(asked.values())


def _follow(
    item: CliCalled, path: tuple[str | None, ...], evidence: Evidence, asked: dict[str | None, CliCalled]
) -> None:
    asked[item.name if path else None] = item
    path = (*path, item.name)
    for name in filter(None, (item.after, item.before)):
        other = evidence.cli_patterns.get(name)
        if other is None:
            raise JudgingError(f"{name!r} names no cli_called criterion of this task")
        if name in path:
            raise JudgingError(f"after and before go in a circle: {' -> '.join([*filter(None, path), name])}")
        if _source(other, evidence) != _source(item, evidence):
            raise JudgingError(f"the calls of {name!r} stand in another log, so that nobody knows what came first")
        if name not in asked:
            _follow(other, path, evidence, asked)


def _source(item: CliCalled, evidence: Evidence) -> tuple[str, bool]:
    return posixpath.normpath(item.log), _recorded(item, evidence)


def _in_line(calls: Sequence[Invocation]) -> Iterator[SeenCall]:
    return (SeenCall(call, place, place) for place, call in enumerate(calls))


def _timeline(asked: Sequence[CliCalled], evidence: Evidence) -> tuple[Timeline, Sequence[str]]:
    """The recorded calls and those that the transcript alone tells of, and what the code of interpreters names."""
    log = evidence.invocations
    tools = log.recorded_tools & (_tools(asked) or log.recorded_tools)
    recorded = RecordedCalls(log, evidence.trajectory, evidence.root)
    seen = [*_in_line(log.invocations), *claimed_calls(recorded, log, tools)]
    return Timeline(seen, evidence.cli_patterns, CallSource(options=log.options)), named_in_code(recorded, tools)


def _tools(asked: Sequence[CliCalled]) -> frozenset[str] | None:
    """The tools that are asked about, None when any may be."""
    tools = {tool for item in asked for _, tool, _ in item.patterns()}
    return None if None in tools else frozenset(filter(None, tools))


def _refuse_unseen(asked: Sequence[CliCalled], evidence: Evidence) -> None:
    """What must not have been called cannot be judged for a tool that shells have built in."""
    tools = _tools(asked)
    unseen = evidence.invocations.builtin_tools & (evidence.invocations.recorded_tools if tools is None else tools)
    key = "max_count" if asked[0].max_count is not None else "before" if any(item.before for item in asked) else ""
    if key and unseen:
        names = ", ".join(sorted(unseen))
        raise JudgingError(f"{names}: a builtin of shells, so calls by a shell were not recorded and {key} is open")


def _recorded(criterion: CliCalled, evidence: Evidence) -> bool:
    """Whether the recorder, and not a file that a mock writes, knows the calls that the criterion asks for."""
    known = evidence.invocations.recorded_tools
    tools = _tools([criterion])
    if posixpath.normpath(criterion.log) != DEFAULT_LOG:
        return False
    return bool(known) if tools is None else tools <= known


def _hint(criterion: CliCalled, evidence: Evidence) -> str:
    known = evidence.invocations.recorded_tools
    missing = (_tools([criterion]) or frozenset()) - known
    if missing and known:
        verb = "is" if len(missing) == 1 else "are"
        return f"{', '.join(sorted(missing))} {verb} not recorded; sandbox.record_cli names {', '.join(sorted(known))}"
    return "" if known else "sandbox.record_cli names no tool, so a mock must write this file"


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


def _judge(criterion: CliCalled, timeline: Timeline, in_code: Sequence[str] = ()) -> Judgement:
    sure = timeline.counting(criterion, sure=True)
    possible = timeline.counting(criterion, sure=False)
    past = _past(timeline, in_code)
    claimed = len(possible) - len(sure)
    remark = f", {claimed} of them past the recorder" if claimed else ""
    if criterion.max_count is not None and len(possible) > criterion.max_count:
        return Judgement(0.0, _found(criterion, len(possible), remark), _joined(_listed(possible), past))
    if criterion.max_count is not None and any(item.seen.repeated for item in possible):
        found = _found(criterion, len(possible), f"{remark}, perhaps more often")
        return Judgement(0.0, found, _joined(_listed(possible), past))
    found = _found(criterion, len(sure))
    if len(sure) < criterion.min_count:
        nothing = "" if timeline.recorded > len(sure) else f"; no {'other ' if sure else ''}call was recorded"
        return Judgement(0.0, found + nothing, _joined(_missing(criterion, timeline), past))
    guard = "" if sure else _guard(criterion, timeline)
    if not sure:
        found += f", of {_calls(timeline.recorded)} recorded ({guard or UNPROVEN})"
    notes = [] if sure or guard else [UNPROVEN]
    return Judgement(1.0, found, past, note="; ".join([*notes, *past.splitlines()]))


def _found(criterion: CliCalled, count: int, remark: str = "") -> str:
    kind = "matching call" if criterion.sequence is None else "complete sequence"
    return f"{count} {kind}{'' if count == 1 else 's'}{remark}, {_expected(criterion)}"


def _expected(criterion: CliCalled) -> str:
    least, most = criterion.min_count, criterion.max_count
    if most is None:
        return f"expected at least {least}"
    if least == most:
        return f"expected {least}" if least else "expected none"
    return f"expected at most {most}" if not least else f"expected {least} to {most}"


def _missing(criterion: CliCalled, timeline: Timeline) -> str:
    """What came nearest to a call that counts, and how far a sequence got."""
    if not timeline.recorded:
        return ""
    wanted, done = timeline.wanted(criterion)
    others = _nearest_first(wanted)
    nearest = f"nearest of {_calls(timeline.recorded)} recorded:\n{_listed(others)}" if others else ""
    if criterion.sequence is None:
        return nearest
    step, steps = len(done) + 1, len(criterion.sequence)
    return _joined(f"step {step} of {steps} was not called" + (" after:" if done else ""), _listed(done), nearest)


def _guard(criterion: CliCalled, timeline: Timeline) -> str:
    """Which call shows that the pattern of a guard could have matched what was asked of the tool, or nothing."""
    touched = [item for item in _nearest_first(timeline.wanted(criterion)[0]) if item.touched]
    return f"guard held; nearest: {_line(touched[0])}" if touched else ""


def _nearest_first(items: Sequence[Compared]) -> list[Compared]:
    others = [item for item in items if not item.match and not item.seen.claimed]
    return sorted(others, key=lambda item: item.closeness, reverse=True)


def _past(timeline: Timeline, in_code: Sequence[str]) -> str:
    """The calls that only the transcript tells of, and the tools that code names by their path."""
    claims = [item.shown for item in timeline.seen if item.claimed]
    lines = [f"past the recorder: {_short(text)}" for text in claims[:SHOWN_CALLS]]
    lines += [f"  +{len(claims) - SHOWN_CALLS} more"] if len(claims) > SHOWN_CALLS else []
    return "\n".join([*lines, *(f"the code of an interpreter names {_short(path)}" for path in in_code[:SHOWN_CALLS])])


def _calls(number: int) -> str:
    return "1 call" if number == 1 else f"{number} calls"


def _listed(items: Sequence[Compared]) -> str:
    lines = [f"  {_line(item)}" for item in items[:SHOWN_CALLS]]
    if len(items) > SHOWN_CALLS:
        lines.append(f"  +{len(items) - SHOWN_CALLS} more")
    return "\n".join(lines)


def _line(item: Compared) -> str:
    call = item.seen.call
    difference = f"  <- {_short(item.difference, 2)}" if item.difference else ""
    return f"{_short(shlex.join([call.tool or '(unnamed)', *call.argv]))}{difference}"


def _joined(*parts: str) -> str:
    return "\n".join(filter(None, parts))


def _short(text: str, times: int = 1) -> str:
    """`text` in one line of at most so many characters."""
    limit = SHOWN_CHARACTERS * times
    line = clean(head(text, limit + 1)).replace("\n", "\\n").replace("\t", "\\t")
    return line if len(line) <= limit else f"{line[: limit - 3]}..."
