"""Calls of recorded tools that went past the recorder, as far as the agent's transcript tells of them."""

from __future__ import annotations

import bisect
import collections
import itertools
import math
from collections.abc import Collection, Iterator

from ..recorder.invocation import Invocation, InvocationLog
from ..trajectory.model import ToolCall, Trajectory
from ..trajectory.shell import Ran, SimpleCommand
from .cli_facets import SeenCall
from .recorded_calls import same_call
from .shell_calls import shell_text, understood


def claimed_calls(trajectory: Trajectory, log: InvocationLog, tools: Collection[str]) -> list[SeenCall]:
    """The commands of the transcript that call one of `tools` past the recorder, and are not among the recorded calls.

    A recorded call with the same arguments stands for such a command, unless a command that needed the recorder's shim
    has it already.
    """
    unexplained = _Unexplained(log)
    past = []
    for call, command in _commands(trajectory, tools):
        if command.bypass and not _is_shim(command.words[0], log.shim_dir):
            past.append((call, command))
        elif command.ran is Ran.YES:
            unexplained.take(command)
    places = _Places(log)
    return [places.claim(call, command) for call, command in past if not unexplained.take(command)]


def _commands(trajectory: Trajectory, tools: Collection[str]) -> Iterator[tuple[ToolCall, SimpleCommand]]:
    """The simple commands of all shell texts that call one of `tools` and may have been run."""
    for call in trajectory.tool_calls:
        text = shell_text(call)
        if text is None:
            continue
        for command in understood(call, text).commands:
            if command.program in tools and command.ran is not Ran.NO:
                yield call, command


class _Unexplained:
    """The recorded calls that no command of the transcript stands for yet."""

    def __init__(self, log: InvocationLog) -> None:
        self._calls = collections.Counter((call.tool, call.argv) for call in log.invocations)

    def take(self, command: SimpleCommand) -> bool:
        """Have `command` stand for one of them, where one can be it."""
        exact = command.program, command.words[1:]
        keys = [exact] if all(command.known) else list(self._calls)
        for key in keys:
            if self._calls[key] > 0 and same_call(command, Invocation(0, *key)):
                self._calls[key] -= 1
                return True
        return False


def _is_shim(word: str, shim_dir: str) -> bool:
    return bool(shim_dir) and word.rpartition("/")[0] == shim_dir.rstrip("/")


class _Places:
    """Where among the recorded calls a tool call of the agent stands."""

    def __init__(self, log: InvocationLog) -> None:
        self._times = list(itertools.accumulate((call.time for call in log.invocations), max))

    def claim(self, call: ToolCall, command: SimpleCommand) -> SeenCall:
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
        )
