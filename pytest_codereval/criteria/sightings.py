"""Everything in the evidence that looks like the command that a criterion asks for, and how well each is known."""

from __future__ import annotations

import dataclasses
import enum
import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from ..recorder.invocation import Invocation, InvocationLog
from ..sandbox.workspace import Unreadable
from ..task.command_models import CommandExecuted
from ..trajectory.model import ToolCall, Trajectory
from ..trajectory.shell import Ran, ShellProgram, SimpleCommand
from .across_commands import match_across
from .asked_commands import Asked, AskedPattern, Found, asked_by, excluded
from .command_text import parameter_haystacks
from .patterns import search
from .recorded_calls import RecordedCalls
from .shell_calls import SHELL_TOOL, shell_text, understood


class Standing(enum.IntEnum):
    """How well it is known that something was run."""

    NOT_RUN = 0
    """It explains, and counts for nothing."""
    GUARD_ONLY = 1
    """It cannot be ruled out: it counts against a most allowed number."""
    UNPROVEN = 2
    """In text that could not be understood: it counts for a least number too, unless success is asked for."""
    PERHAPS = 3
    """In text that was understood, but may not have been reached: it counts as UNPROVEN does."""
    RAN = 4


@dataclasses.dataclass(frozen=True)
class Sighting:
    """One place where the command was seen. `succeeded` is None when that is not known, `why_unknown` says why.

    `settled` is False where later evidence may show it in another light.
    """

    text: str
    source: str
    standing: Standing
    succeeded: bool | None = None
    why_unknown: str = ""
    note: str = ""
    settled: bool = True


def sightings(criterion: CommandExecuted, trajectory: Trajectory, log: InvocationLog) -> Iterator[Sighting]:
    """Yield the sightings in the order of the calls, those of the recorder last."""
    named = criterion.tool_name
    calls = [call for call in trajectory.tool_calls if named in (None, call.name)]
    if not asks_for_commands(criterion):
        for call in calls:
            yield from _guarded(_whole_call, criterion, call)
        return
    asked = asked_by(criterion, log.options.get(criterion.command.tool, ()) if criterion.command else ())
    recorded = RecordedCalls(log)
    helping: list[SimpleCommand] = []
    shells = named in (None, SHELL_TOOL)
    for call in calls:
        text = shell_text(call)
        if text is not None:
            shells = True
            yield from _ShellCall(asked, recorded, call, text).sightings(helping)
        if named is not None and call.name != SHELL_TOOL and criterion.command_pattern is not None:
            yield from _guarded(_in_parameters, criterion, call)
    if shells:
        yield from _recorded(asked, recorded, helping)


def asks_for_commands(criterion: CommandExecuted) -> bool:
    """Whether the criterion is about commands; else it is about whole tool calls."""
    return criterion.command_pattern is not None or criterion.command is not None


def asks_for_recorded(criterion: CommandExecuted, log: InvocationLog) -> bool:
    """Whether recorded calls may decide the criterion."""
    return asks_for_commands(criterion) and criterion.tool_name in (None, SHELL_TOOL) and bool(RecordedCalls(log).tools)


def _guarded(
    look: Callable[[CommandExecuted, ToolCall], Iterator[Sighting]], criterion: CommandExecuted, call: ToolCall
) -> Iterator[Sighting]:
    """What `look` yields; a call whose parameters cannot be read could be one that is asked for."""
    try:
        yield from look(criterion, call)
    except Unreadable as error:
        why = "the call cannot be read"
        yield Sighting(shown_call(call), _source(call), Standing.GUARD_ONLY, None, why, error.reason)


def _whole_call(criterion: CommandExecuted, call: ToolCall) -> Iterator[Sighting]:
    if not _excludes_call(criterion, call):
        yield Sighting(shown_call(call), _source(call), Standing.RAN, _succeeded(call), "the call has no status")


def _succeeded(call: ToolCall) -> bool | None:
    return {"success": True, "error": False}.get(call.status)


def _source(call: ToolCall) -> str:
    return f"{call.name} [{call.status}]"


def shown_call(call: ToolCall) -> str:
    """What a call ran or was given, as text."""
    text = shell_text(call)
    if text is not None:
        return text
    try:
        return parameter_haystacks(call.name, call.parameters)[0]
    except Unreadable:
        return "(parameters that cannot be shown)"


def _excludes_call(criterion: CommandExecuted, call: ToolCall) -> bool:
    if criterion.exclude_pattern is None:
        return False
    text = shell_text(call)
    if text is None:
        return _in_texts(criterion.exclude_pattern, parameter_haystacks(call.name, call.parameters))
    program = understood(call, text)
    asked = AskedPattern(criterion.exclude_pattern)
    ran = (command for command in program.commands if command.ran is not Ran.NO)
    found = (excluded(criterion.exclude_pattern, command) for command in ran)
    return any(found) or any(map(asked.match_in, program.unparsed))


def _in_parameters(criterion: CommandExecuted, call: ToolCall) -> Iterator[Sighting]:
    """The call, by the JSON text of its parameters; a shell text among them is judged as such and left out here."""
    left_out = "command" if shell_text(call) is not None else None
    parameters = {name: value for name, value in call.parameters.items() if name != left_out}
    texts = parameter_haystacks(call.name, parameters)
    if criterion.exclude_pattern is not None and _in_texts(criterion.exclude_pattern, texts):
        return
    if criterion.command_pattern is not None and _in_texts(criterion.command_pattern, texts):
        yield Sighting(texts[0], _source(call), Standing.RAN, _succeeded(call), "the call has no status")


def _in_texts(pattern: str, texts: Sequence[str]) -> bool:
    return any(search(pattern, text, re.DOTALL) for text in texts)


@dataclasses.dataclass(frozen=True)
class _ShellCall:
    """One call of a shell, looked at for what is asked."""

    asked: Asked
    recorded: RecordedCalls
    call: ToolCall
    text: str

    def sightings(self, helping: list[SimpleCommand]) -> Iterator[Sighting]:
        """Add to `helping` the commands that speak for a recorded call."""
        program = understood(self.call, self.text)
        seen = False
        for command in program.commands:
            found = self.asked.found_in(command)
            if found is Found.NOWHERE:
                continue
            seen = seen or (found is not Found.MENTION and command.ran is not Ran.NO)
            if found is Found.COMMAND and command.ran is not Ran.NO and self.recorded.tools:
                helping.append(command)
            yield self._of_command(command, found)
        if not seen and isinstance(self.asked, AskedPattern):
            yield from self._across(self.asked, program)
        for text in program.unparsed:
            match = self.asked.match_in(text)
            if match is not None:
                yield self._of_text(text, match)

    def _of_command(self, command: SimpleCommand, found: Found) -> Sighting:
        standing, note = self._judged(command, found)
        why = command.why_unknown or "the call has no status"
        settled = not (self.recorded.tools and command.known and not command.known[0])
        return Sighting(command.raw, _source(self.call), standing, command.succeeded, why, note, settled)

    def _judged(self, command: SimpleCommand, found: Found) -> tuple[Standing, str]:
        if found is Found.EXCLUDED:
            return Standing.NOT_RUN, "excluded"
        if command.ran is Ran.NO:
            return Standing.NOT_RUN, "not run"
        tool = self.recorded.tool_of(command)
        if tool is not None:
            return self._beside_recorder(tool, command, found)
        if found is Found.MENTION:
            return Standing.NOT_RUN, "only mentioned"
        tool = self._recorded_name(command)
        if tool is not None:
            return Standing.NOT_RUN, f"names {tool}; its recorded calls decide"
        if found is Found.CODE_TEXT:
            return Standing.GUARD_ONLY, "a text in the code of an interpreter"
        if found is Found.CODE:
            return Standing.PERHAPS, "in the code of an interpreter"
        if found is Found.ARGUMENT:
            return Standing.PERHAPS, "in an argument of another program"
        if found is Found.VARIABLE:
            return Standing.PERHAPS, "the program is a variable"
        if command.ran is Ran.MAYBE:
            return Standing.PERHAPS, "perhaps not run"
        return Standing.RAN, ""

    def _beside_recorder(self, tool: str, command: SimpleCommand, found: Found) -> tuple[Standing, str]:
        if self.recorded.saw(command):
            return Standing.NOT_RUN, f"{tool} is recorded; its calls decide"
        if command.bypass and found is not Found.MENTION:
            return Standing.GUARD_ONLY, f"went past the recorder of {tool}"
        return Standing.NOT_RUN, f"the recorder saw no such call of {tool}"

    def _recorded_name(self, command: SimpleCommand) -> str | None:
        """The recorded tool with which the match in a command of another program begins."""
        if not self.recorded.tools:
            return None
        match = self.asked.match_in(command.text)
        return self.recorded.decides(match.group()) if match else None

    def _across(self, asked: AskedPattern, program: ShellProgram) -> Iterator[Sighting]:
        ran = [command for command in program.commands if command.ran is not Ran.NO]
        tools = [self.recorded.tool_of(command) for command in ran]
        kept = [c for c, tool in zip(ran, tools, strict=True) if tool is None or self.recorded.saw(c)]
        statement = match_across(asked, self.text, kept) if len(kept) > 1 else None
        if statement is None:
            return
        certain = all(command.ran is Ran.YES for command in kept)
        succeeded = True if all(command.succeeded for command in kept) else None
        yield Sighting(
            statement,
            _source(self.call),
            Standing.RAN if certain else Standing.PERHAPS,
            succeeded,
            next((command.why_unknown for command in kept if command.why_unknown), "several commands"),
            "across commands",
            settled=not any(tools),
        )

    def _of_text(self, text: str, match: re.Match[str]) -> Sighting:
        tool = self.recorded.decides(match.group())
        if tool is not None:
            return Sighting(text, _source(self.call), Standing.NOT_RUN, note=f"{tool} is recorded; its calls decide")
        standing = Standing.UNPROVEN if self.asked.texts_count else Standing.GUARD_ONLY
        note = "text that could not be understood"
        return Sighting(text, _source(self.call), standing, None, note, f"unproven: {note}")


def _recorded(asked: Asked, recorded: RecordedCalls, helping: Sequence[SimpleCommand]) -> Iterator[Sighting]:
    spelled = {call.sequence for call in recorded.spelled_by(helping)} if asked.texts_count else set()
    for call in recorded.calls:
        by_itself = asked.answers(call)
        if not by_itself and call.sequence not in spelled:
            continue
        if asked.excludes(call):
            yield _of_invocation(call, Standing.NOT_RUN, "excluded")
        else:
            yield _of_invocation(call, Standing.RAN, "" if by_itself else "as the transcript spells it")


def _of_invocation(call: Invocation, standing: Standing, note: str) -> Sighting:
    succeeded = None if call.exit_status is None else call.exit_status == 0
    status = "no exit status" if call.exit_status is None else f"exit {call.exit_status}"
    return Sighting(
        shlex.join((call.tool, *call.argv)),
        f"recorded call {call.sequence} [{status}]",
        standing,
        succeeded,
        "no exit status was recorded",
        note,
    )
