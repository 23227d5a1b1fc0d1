"""Calls of recorded tools that went past the recorder, as far as the agent's transcript tells of them."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Collection

from ...recorder.invocation import Invocation, InvocationLog
from .cli_facets import SeenCall
from .interpreter_code import named_by_path
from .recorded_calls import RecordedCalls
from .typed_commands import TypedCommand


def claimed_calls(recorded: RecordedCalls, log: InvocationLog, tools: Collection[str]) -> list[SeenCall]:
    """The commands of the transcript that called one of `tools` past the recorder."""
    places = _Places(log)
    past = (item for item in recorded.commands if item.called.program in tools and recorded.went_past(item))
    return [places.claim(item) for item in past]


def named_in_code(recorded: RecordedCalls, tools: Collection[str]) -> list[str]:
    """The paths under which the code of interpreters names one of `tools`, each once."""
    found = (path for item in recorded.commands for path, _ in named_by_path(item.command, tools))
    return list(dict.fromkeys(found))


class _Places:
    """Where among the recorded calls a tool call of the agent stands."""

    def __init__(self, log: InvocationLog) -> None:
        self._times = list(itertools.accumulate((call.time for call in log.invocations), max))

    def claim(self, item: TypedCommand) -> SeenCall:
        call, command = item.call, item.called
        before = bisect.bisect_left(self._times, call.started) if call.started else 0
        ended = call.ended or math.inf
        return SeenCall(
            Invocation(0, command.program, command.words[1:], time=call.started, stdin=command.stdin),
            earliest=before - 0.75,
            latest=max(bisect.bisect_right(self._times, ended), before) - 0.25,
            claimed=True,
            succeeded=command.succeeded,
            shown=command.raw,
            unknown_from=next((index for index, known in enumerate(command.known[1:]) if not known), None),
            repeated=command.repeated,
        )
