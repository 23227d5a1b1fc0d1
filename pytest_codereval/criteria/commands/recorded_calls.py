"""The recorder's calls beside the transcript: which command of a shell text was which recorded call.

Each command stands for one recorded call and each recorded call for one command, as many of both as possible.
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import re
from collections.abc import Collection, Iterable, Sequence

from ...recorder.invocation import Invocation, InvocationLog
from ...trajectory.model import ToolCall, Trajectory
from ...trajectory.shell import Ran, ShellProgram, SimpleCommand
from .asked_commands import named_by_variable
from .shell_calls import shell_text, understood
from .typed_commands import TypedCommand, named_program, typed_in

MOST_COMPARISONS = 200_000
"""Commands with words that are not known are held against so many recorded calls in all."""

MOST_DETOURS = 200
"""Kinds of calls that are looked at to make room for one command."""

DEEPEST_DETOUR = 40

_GLOB = frozenset("*?[")
_HOME = re.compile(r"([\w-]+=|)~[\w.-]*(?=/|$)")


@dataclasses.dataclass(eq=False)
class _Kind:
    """All recorded calls with the same arguments, and the commands that stand for them."""

    calls: list[Invocation]
    owners: list[TypedCommand] = dataclasses.field(default_factory=list)

    @property
    def spare(self) -> Sequence[Invocation]:
        return self.calls[len(self.owners) :]


class RecordedCalls:
    """The recorded calls of a trial, and which commands of its transcript stand for them.

    `tools` are the tools that the recorder sees whenever a shell runs them through PATH; builtins of shells are not.
    """

    def __init__(self, log: InvocationLog, trajectory: Trajectory | None = None, workspace: str = "") -> None:
        self.tools = log.recorded_tools - log.builtin_tools
        self.calls = tuple(call for call in log.invocations if call.tool in self.tools)
        self.shim_dir = log.shim_dir
        self._recorded_tools = log.recorded_tools
        calls = trajectory.tool_calls if trajectory is not None else ()
        self._programs = {id(call): understood(call, text) for call in calls if (text := shell_text(call)) is not None}
        self._typed = {
            id(call): typed_in(call, self._programs[id(call)], log.recorded_tools, workspace)
            for call in calls
            if id(call) in self._programs
        }
        self.commands = tuple(item for items in self._typed.values() for item in items)
        self._match = _Match(log, [item for item in self.commands if not item.own])

    def program_of(self, call: ToolCall) -> ShellProgram:
        """What the shell text of one tool call of the trajectory ran."""
        return self._programs[id(call)]

    def commands_of(self, call: ToolCall) -> dict[int, TypedCommand]:
        """The commands of this program that may have been run, by their identity."""
        return {id(item.command): item for item in self._typed[id(call)]}

    def tool_of(self, item: TypedCommand) -> str | None:
        """The recorded tool that the command called, or None.

        Where the program is a variable, that is the tool of the recorded call that it stands for, or of its name.
        """
        command = item.called
        if item.own or not command.words:
            return None
        program = named_program(command)
        if program:
            return program if program in self.tools else None
        calls = self._match.calls_of(item)
        if calls and calls[0].tool in self.tools:
            return calls[0].tool
        name = named_by_variable(command.words[0])
        return next((tool for tool in self.tools if tool.casefold() == name), None)

    def calls_of(self, item: TypedCommand) -> tuple[Invocation, ...]:
        """The recorded calls that the command stands for: one, or all that are left for one that is repeated."""
        return self._match.calls_of(item)

    def is_open(self, item: TypedCommand) -> bool:
        """Whether the command may as well be a call that nothing stands for and that ended in another way."""
        ends = {call.exit_status == 0 for call in self._match.calls_of(item)}
        return any((call.exit_status == 0) not in ends for call in self._match.left_for(item))

    def went_past(self, item: TypedCommand) -> bool:
        """Whether the command called a recorded tool and cannot have been recorded."""
        program = named_program(item.called)
        if program not in self._recorded_tools or item.own or item.missing or self._match.calls_of(item):
            return False
        return passes_by(item.called, self.shim_dir) or (item.certain and program in self.tools)

    def decides(self, text: str) -> str | None:
        """The recorded tool with whose name `text` begins, or None."""
        start = text.lstrip(" \t\r\n\"'`(")
        for tool in self.tools:
            if start.startswith(tool) and not start[len(tool) : len(tool) + 1].strip(" \t\r\n\"'`;&|)\\"):
                return tool
        return None


class _Match:
    """Which command stands for which recorded call, as many as possible; what needs the recorder most comes first."""

    def __init__(self, log: InvocationLog, commands: Iterable[TypedCommand]) -> None:
        self._kinds: dict[tuple[str, tuple[str, ...]], _Kind] = {}
        self._of_tool: dict[str, list[_Kind]] = collections.defaultdict(list)
        for call in log.invocations:
            key = call.tool, call.argv
            if key not in self._kinds:
                self._kinds[key] = _Kind([])
                self._of_tool[call.tool].append(self._kinds[key])
            self._kinds[key].calls.append(call)
        self._edges: dict[TypedCommand, list[_Kind]] = {}
        self._budget = MOST_COMPARISONS
        ranks = {item: _rank(item, log.recorded_tools, log.shim_dir) for item in commands} if self._kinds else {}
        self._place = {item: place for place, item in enumerate(ranks)}
        named = sorted((item for item, rank in ranks.items() if rank < _VARIABLE), key=ranks.__getitem__)
        for item in named:
            self._take(item, set(), 0)
        self._repeated(named)
        for item, rank in ranks.items():
            if rank == _VARIABLE:
                self._take(item, set(), DEEPEST_DETOUR)
        self._calls = self._chosen()

    def calls_of(self, item: TypedCommand) -> tuple[Invocation, ...]:
        return self._calls.get(item, ())

    def left_for(self, item: TypedCommand) -> list[Invocation]:
        """The calls that nothing stands for and that the command can be."""
        return [call for kind in self._edges.get(item, ()) for call in kind.spare]

    def _take(self, item: TypedCommand, seen: set[_Kind], depth: int) -> bool:
        kinds = self._kinds_of(item)
        for kind in kinds:
            if kind.spare:
                kind.owners.append(item)
                return True
        if depth >= DEEPEST_DETOUR:
            return False
        for kind in kinds:
            if kind in seen or len(seen) >= MOST_DETOURS:
                continue
            seen.add(kind)
            for place, owner in enumerate(kind.owners):
                if len(self._edges[owner]) > 1 and self._take(owner, seen, depth + 1):
                    kind.owners[place] = item
                    return True
        return False

    def _kinds_of(self, item: TypedCommand) -> list[_Kind]:
        if item not in self._edges:
            self._edges[item] = self._compared(item.called)
        return self._edges[item]

    def _compared(self, command: SimpleCommand) -> list[_Kind]:
        if all(command.known) and not any(map(_may_expand, command.words)):
            kind = self._kinds.get((command.program, command.words[1:]))
            return [kind] if kind is not None else []
        program = named_program(command)
        tools = [program] if program else sorted(self._of_tool)
        if not program:
            name = named_by_variable(command.words[0])
            tools = [tool for tool in tools if tool.casefold() == name] or tools
        kinds = [kind for tool in tools for kind in self._of_tool.get(tool, ())]
        kinds = kinds[: max(self._budget, 0)]
        self._budget -= len(kinds)
        return [kind for kind in kinds if same_call(command, kind.calls[0])]

    def _repeated(self, items: Iterable[TypedCommand]) -> None:
        """Give the calls that are left to the first command that may have been run more often."""
        for item in items:
            if item.called.repeated:
                for kind in self._kinds_of(item):
                    kind.owners += [item] * len(kind.spare)

    def _chosen(self) -> dict[TypedCommand, tuple[Invocation, ...]]:
        """Within a kind the commands have the calls in their order."""
        chosen: dict[TypedCommand, list[Invocation]] = collections.defaultdict(list)
        for kind in self._kinds.values():
            owners = sorted(kind.owners, key=self._place.__getitem__)
            for owner, call in zip(owners, kind.calls, strict=False):
                chosen[owner].append(call)
        return {item: tuple(calls) for item, calls in chosen.items()}


_VARIABLE, _NO_CALL = 3, 4


def _rank(item: TypedCommand, tools: Collection[str], shim_dir: str) -> int:
    """How much a command that may be a recorded call needs the recorder, least last."""
    command = item.called
    if command.words and not named_program(command):
        return _VARIABLE
    if command.program not in tools:
        return _NO_CALL
    if passes_by(command, shim_dir):
        return 2
    return 0 if command.ran is Ran.YES else 1


def passes_by(command: SimpleCommand, shim_dir: str) -> bool:
    """Whether the command goes past PATH, and not straight to the recorder."""
    return command.bypass and not (shim_dir and command.words[0].rpartition("/")[0] == shim_dir.rstrip("/"))


def same_call(command: SimpleCommand, call: Invocation) -> bool:
    """Whether the words of `command` can have become this call.

    A word that is not known may be any arguments; one that the shell may expand, what it may expand to.
    """
    if not command.words or named_program(command) not in ("", call.tool):
        return False
    return _unifies(command.words[1:], command.known[1:], call.argv)


def _may_expand(word: str) -> bool:
    return _HOME.match(word) is not None or not _GLOB.isdisjoint(word)


def _unifies(words: Sequence[str], known: Sequence[bool], argv: Sequence[str]) -> bool:
    reached = {0}
    loose = [not sure or _may_expand(word) for word, sure in zip(words, known, strict=True)]
    first = next((place for place, is_loose in enumerate(loose) if is_loose), len(words))
    if tuple(argv[:first]) != tuple(words[:first]):
        return False
    for word, sure in zip(words, known, strict=True):
        if not sure:
            reached = set(range(min(reached), len(argv) + 1))
        elif _may_expand(word):
            reached = _expanded(word, reached, argv)
        else:
            reached = {place + 1 for place in reached if place < len(argv) and argv[place] == word}
        if not reached:
            return False
    return len(argv) in reached


def _expanded(word: str, reached: Iterable[int], argv: Sequence[str]) -> set[int]:
    """Where the arguments that `word` can have become end, when they begin at one of `reached`."""
    ends: set[int] = set()
    for begin in reached:
        for place in range(begin, len(argv)):
            if not (argv[place] == word or _expands_to(word, argv[place])) or place + 1 in ends:
                break
            ends.add(place + 1)
    return ends


def _expands_to(word: str, argument: str) -> bool:
    home = _HOME.match(word)
    if home is not None:
        return argument.startswith(home[1]) and argument.endswith(word[home.end() :])
    return fnmatch.fnmatchcase(argument, word)
