"""The recorder's calls beside the transcript: which command of a shell text was which recorded call."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..recorder.invocation import Invocation, InvocationLog
from ..trajectory.shell import SimpleCommand


class RecordedCalls:
    """The calls of tools that the recorder sees whenever a shell runs them through PATH; builtins of shells are not."""

    def __init__(self, log: InvocationLog) -> None:
        self.tools = log.recorded_tools - log.builtin_tools
        self.calls = tuple(call for call in log.invocations if call.tool in self.tools)
        self._typed = {(call.tool, *call.argv) for call in self.calls}

    def tool_of(self, command: SimpleCommand) -> str | None:
        """The recorded tool that `command` called, or None.

        Where the program is a variable, it is the tool of a recorded call with such arguments.
        """
        if command.program in self.tools:
            return command.program
        if command.words and not command.known[0]:
            return next((call.tool for call in self.calls if same_call(command, call)), None)
        return None

    def saw(self, command: SimpleCommand) -> bool:
        """Whether a call was recorded that can be `command`."""
        if all(command.known):
            return (command.program, *command.words[1:]) in self._typed
        return any(same_call(command, call) for call in self.calls)

    def spelled_by(self, commands: Iterable[SimpleCommand]) -> Iterator[Invocation]:
        """Yield the recorded calls that can be one of `commands`."""
        typed = {(c.program, *c.words[1:]) for c in commands if all(c.known)}
        open_ended = list({(c.words, c.known): c for c in commands if not all(c.known)}.values())
        for call in self.calls:
            if (call.tool, *call.argv) in typed or any(same_call(command, call) for command in open_ended):
                yield call

    def decides(self, text: str) -> str | None:
        """The recorded tool with whose name `text` begins, or None."""
        start = text.lstrip(" \t\r\n\"'`(")
        for tool in self.tools:
            if start.startswith(tool) and not start[len(tool) : len(tool) + 1].strip(" \t\r\n\"'`;&|)\\"):
                return tool
        return None


def same_call(command: SimpleCommand, call: Invocation) -> bool:
    """Whether the words of `command` can have become this call; a word that is not known may be any arguments."""
    if not command.words or (command.known[0] and command.program != call.tool):
        return False
    return _unifies(command.words[1:], command.known[1:], call.argv)


def _unifies(words: Sequence[str], known: Sequence[bool], argv: Sequence[str]) -> bool:
    reached = {0}
    first = next((place for place, sure in enumerate(known) if not sure), len(words))
    if tuple(argv[:first]) != tuple(words[:first]):
        return False
    for word, sure in zip(words, known, strict=True):
        if sure:
            reached = {place + 1 for place in reached if place < len(argv) and argv[place] == word}
        else:
            reached = set(range(min(reached), len(argv) + 1))
        if not reached:
            return False
    return len(argv) in reached
