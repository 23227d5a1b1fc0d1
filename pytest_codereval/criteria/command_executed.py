"""Criterion type command_executed: how many commands the agent ran that are as the author described them."""

from __future__ import annotations

import dataclasses
import shlex
import weakref
from collections.abc import Sequence

from ..errors import JudgingError
from ..recorder.invocation import InvocationLog
from ..task.command_models import CommandExecuted
from ..text import shorten
from ..trajectory.model import ToolCall, Trajectory
from .commands.asked_commands import asked_by
from .commands.per_call import per_call
from .commands.shell_calls import shell_text, understood
from .commands.sightings import Sighting, Standing, asks_for_commands, asks_for_shells, shown_call, sightings
from .contract import Evidence, Judgement, Verdict

SHOWN_CALLS = 10
SHOWN_LENGTH = 200


@dataclasses.dataclass(frozen=True)
class _Counted:
    """Sightings by what they are good for. What is unproven counts for a least or a most number, never as certain."""

    all: tuple[Sighting, ...]
    for_least: tuple[Sighting, ...]
    for_most: tuple[Sighting, ...]
    certain: tuple[Sighting, ...]


def check(criterion: CommandExecuted, evidence: Evidence) -> Judgement:
    """Score by the number of matching commands: within min and max 1, else 0; without a max the fraction of min.

    What cannot be known for certain is counted against the agent's interest only where it could break a guard: a
    `max_count` is held against what may have run, `min_count` under `require_success` against what certainly did.
    Without a trajectory the score is 0, also for a guard: nobody knows what was run. Raises JudgingError when recorded
    calls may be missing.
    """
    if evidence.trajectory is None:
        return Judgement(0.0, "no agent ran, so nothing is known about its commands")
    log = evidence.invocations
    seen = log.recorded_tools - log.builtin_tools
    if log.faults and seen and asks_for_shells(criterion, evidence.trajectory.tool_calls):
        raise JudgingError("calls may be missing: " + "; ".join(evidence.invocations.faults))
    counted = _count(criterion, evidence.trajectory, log, evidence.root)
    return Judgement(
        _score(criterion, counted),
        _reason(criterion, counted, evidence.trajectory),
        _details(criterion, counted, evidence),
        _note(criterion, counted),
    )


def live_polarities(criterion: CommandExecuted) -> frozenset[Verdict]:
    """Return the verdicts that `live_verdict` can ever give for this criterion."""
    if criterion.max_count is not None:
        return frozenset((Verdict.FAIL,) if criterion.pass_threshold > 0 else ())
    return frozenset((Verdict.PASS,) if criterion.min_count else ())


def live_verdict(criterion: CommandExecuted, evidence: Evidence) -> Verdict | None:
    """Return the verdict that is already certain while the agent still works, else None.

    `evidence` is what there is so far: the trajectory of this attempt and the recorded calls. PASS once enough
    matching commands have certainly run, FAIL once more than `max_count` have; more evidence of the same attempt never
    changes either, and the final verdict is the same. How a call ends may show that its commands did not run, so one
    that has not ended is not looked at.
    """
    polarities = live_polarities(criterion)
    if evidence.trajectory is None or evidence.invocations.faults or not polarities:
        return None
    ended = tuple(call for call in evidence.trajectory.tool_calls if call.ended is not None or call.status != "unknown")
    certain = _certain(criterion, evidence, dataclasses.replace(evidence.trajectory, events=ended))
    if Verdict.FAIL in polarities:
        return Verdict.FAIL if certain > (criterion.max_count or 0) else None
    return Verdict.PASS if certain >= criterion.min_count else None


def _certain(criterion: CommandExecuted, evidence: Evidence, trajectory: Trajectory) -> int:
    """How many commands have certainly run. Where nothing is recorded each call speaks for itself."""
    log = evidence.invocations
    if log.recorded_tools or log.invocations:
        return len(_count(criterion, trajectory, log, evidence.root).certain)
    words = criterion.model_dump_json()
    question = _questions.setdefault(words, _Question(criterion))
    return sum(_certain_in(call, question) for call in trajectory.tool_calls)


@dataclasses.dataclass(eq=False)
class _Question:
    """What criteria in the same words ask; it lives as long as the calls for which its answer is remembered."""

    criterion: CommandExecuted


_questions: weakref.WeakValueDictionary[str, _Question] = weakref.WeakValueDictionary()


@per_call
def _certain_in(call: ToolCall, question: _Question) -> int:
    alone = Trajectory((call,), attempt=call.attempt)
    return len(_count(question.criterion, alone, InvocationLog()).certain)


def _count(criterion: CommandExecuted, trajectory: Trajectory, log: InvocationLog, workspace: str = "") -> _Counted:
    every = tuple(sightings(criterion, trajectory, log, workspace))
    ran = tuple(item for item in every if item.standing is Standing.RAN)
    if criterion.require_success:
        least = tuple(item for item in ran if item.succeeded)
        most = tuple(item for item in every if item.standing > Standing.NOT_RUN and item.succeeded is not False)
    else:
        least = tuple(item for item in every if item.standing >= Standing.UNPROVEN)
        most = tuple(item for item in every if item.standing > Standing.NOT_RUN)
    certain = tuple(item for item in least if item.standing is Standing.RAN and item.settled)
    return _Counted(every, least, most, certain)


def _score(criterion: CommandExecuted, counted: _Counted) -> float:
    least = len(counted.for_least)
    if criterion.max_count is not None:
        return float(criterion.min_count <= least and _at_most(criterion.max_count, counted))
    return min(1.0, least / criterion.min_count) if criterion.min_count else 1.0


def _at_most(most: int, counted: _Counted) -> bool:
    """Whether no more than `most` can have run; of what may have run more often nobody knows."""
    return len(counted.for_most) <= most and not any(item.repeated for item in counted.for_most)


def _note(criterion: CommandExecuted, counted: _Counted) -> str:
    """What people should know of a pass."""
    if criterion.pass_threshold > 0 and not _score(criterion, counted):
        return ""
    notes = []
    weak = [item for item in counted.for_least if item.standing < Standing.RAN]
    if weak and len(counted.for_least) - len(weak) < criterion.min_count:
        notes.append(f"passes by what is not proven: {_short(weak[0].text)} ({weak[0].note})")
    unseen = [item for item in counted.all if item.unseen]
    if unseen and criterion.max_count is not None and len(counted.for_most) + len(unseen) > criterion.max_count:
        notes.append(f"{unseen[0].note}: {_short(unseen[0].text)}")
    return "; ".join(notes)


def _reason(criterion: CommandExecuted, counted: _Counted, trajectory: Trajectory) -> str:
    count = len(counted.for_least)
    if asks_for_commands(criterion):
        found = f"{count} matching {'command' if count == 1 else 'commands'}"
    else:
        found = f"{count} of {len(trajectory.tool_calls)} tool calls match"
    parts = [f"{found}; expected {_expectation(criterion)}"]
    if criterion.require_success and count < criterion.min_count:
        parts += _unknown_success(counted)
    doubtful = len(counted.for_most) - count
    if criterion.max_count is not None and count <= criterion.max_count < len(counted.for_most):
        parts.append(f"{doubtful} more cannot be ruled out (unproven)")
    if criterion.max_count and any(item.repeated for item in counted.for_most):
        parts.append("may have run more often")
    return "; ".join(parts)


def _unknown_success(counted: _Counted) -> list[str]:
    unknown = [item for item in counted.all if item.standing > Standing.NOT_RUN and item.succeeded is None]
    if not unknown:
        return []
    reasons = ", ".join(dict.fromkeys(item.why_unknown for item in unknown))
    times = "once" if len(unknown) == 1 else f"{len(unknown)} times"
    return [f"ran {times}, success unknown ({reasons}); record the tool to know"]


def _expectation(criterion: CommandExecuted) -> str:
    if criterion.max_count is None:
        return f"at least {criterion.min_count}"
    if criterion.max_count == criterion.min_count:
        return f"exactly {criterion.min_count}"
    return f"{criterion.min_count} to {criterion.max_count}"


def _details(criterion: CommandExecuted, counted: _Counted, evidence: Evidence) -> str:
    counting = counted.for_most if criterion.max_count is not None else counted.for_least
    chosen = set(map(id, counting))
    others = [item for item in counted.all if id(item) not in chosen]
    if not counted.all:
        return _nearest(criterion, evidence)
    lines = ["matching:", *_listed([_line(item) for item in counting])] if counting else []
    if others:
        lines += ["not counted:", *_listed([_line(item, criterion.require_success) for item in others])]
    return "\n".join(lines)


def _nearest(criterion: CommandExecuted, evidence: Evidence) -> str:
    calls = evidence.trajectory.tool_calls if evidence.trajectory else ()
    near = _near_commands(criterion, calls, evidence.invocations)
    if near:
        return "\n".join(["no command matches; the nearest were:", *_listed(near)])
    if not calls:
        return "the agent called no tool"
    return "\n".join(["no call matches; the calls were:", *_listed([_call_line(call) for call in calls])])


def _near_commands(criterion: CommandExecuted, calls: Sequence[ToolCall], log: InvocationLog) -> list[str]:
    """For facets: the calls of the tool, recorded and in the transcript, each with what is wrong with it."""
    if criterion.command is None:
        return []
    asked = asked_by(criterion, log.options.get(criterion.command.tool, ()))
    near = [
        (
            f"recorded call {call.sequence}: {shlex.join((call.tool, *call.argv))}",
            asked.difference(call.tool, call.argv),
        )
        for call in log.invocations
    ]
    for call in calls:
        text = shell_text(call)
        for command in understood(call, text).commands if text is not None else ():
            near.append((command.raw, asked.difference(command.program, command.words[1:], command.known[1:])))
    return [f"  {_short(text)}  <- {_short(difference)}" for text, difference in near if difference]


def _listed(lines: Sequence[str]) -> list[str]:
    more = [f"... and {len(lines) - SHOWN_CALLS} more"] if len(lines) > SHOWN_CALLS else []
    return [*lines[:SHOWN_CALLS], *more]


def _line(item: Sighting, asks_success: bool = False) -> str:
    notes = [item.note] if item.note else []
    if asks_success and item.standing is Standing.RAN:
        notes.append("failed" if item.succeeded is False else f"success unknown: {item.why_unknown}")
    note = f"  <- {'; '.join(notes)}" if notes else ""
    return f"  {item.source} {_short(item.text)}{note}"


def _call_line(call: ToolCall) -> str:
    return f"  {call.name} [{call.status}] {_short(shown_call(call))}"


def _short(text: str) -> str:
    return shorten(text, SHOWN_LENGTH).replace("\n", "\\n")
