"""Everything in the evidence that looks like the command that a criterion asks for, and how well each is known."""

from __future__ import annotations

import dataclasses
import enum
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence

from ...recorder.invocation import Invocation, InvocationLog
from ...sandbox.workspace import Unreadable
from ...task.command_models import CommandExecuted
from ...trajectory.model import ToolCall, Trajectory
from ...trajectory.shell import Ran, SimpleCommand
from ..patterns import search
from .across_commands import match_across
from .asked_commands import Asked, AskedPattern, asked_by, named_by_variable
from .command_text import parameter_haystacks
from .interpreter_code import named_by_path
from .mentions import Found, excluded
from .recorded_calls import RecordedCalls, passes_by
from .shell_calls import SHELL_TOOL, shell_text, understood
from .typed_commands import TypedCommand, named_program

UNSEEN = "the recorder saw no such call"


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

    `settled` is False where later evidence may show it in another light. `repeated`: it may have run more often.
    `unseen`: the recorder would have seen it, and did not.
    """

    text: str
    source: str
    standing: Standing
    succeeded: bool | None = None
    why_unknown: str = ""
    note: str = ""
    settled: bool = True
    repeated: bool = False
    unseen: bool = False


def sightings(
    criterion: CommandExecuted, trajectory: Trajectory, log: InvocationLog, workspace: str = ""
) -> Iterator[Sighting]:
    """Yield the sightings in the order of the calls, those of the recorder last. `workspace` is its absolute path."""
    named, calls = criterion.tool_name, trajectory.tool_calls
    chosen = [call for call in calls if named in (None, call.name)]
    if not asks_for_commands(criterion):
        for call in chosen:
            yield from _guarded(_whole_call, criterion, call)
        return
    asked = asked_by(criterion, log.options.get(criterion.command.tool, ()) if criterion.command else ())
    recorded = RecordedCalls(log, trajectory, workspace)
    helping: list[TypedCommand] = []
    for call in chosen:
        text = shell_text(call)
        if text is not None:
            yield from _ShellCall(asked, recorded, call, text).sightings(helping)
        elif named not in (None, SHELL_TOOL) and criterion.command_pattern is not None:
            yield from _guarded(_in_parameters, criterion, call)
    if asks_for_shells(criterion, calls):
        yield from _recorded(asked, recorded, helping)


def asks_for_commands(criterion: CommandExecuted) -> bool:
    """Whether the criterion is about commands; else it is about whole tool calls."""
    return criterion.command_pattern is not None or criterion.command is not None


def asks_for_shells(criterion: CommandExecuted, calls: Sequence[ToolCall]) -> bool:
    """Whether the criterion is about commands of shells, so that recorded calls may decide it."""
    if not asks_for_commands(criterion):
        return False
    named = criterion.tool_name
    return named in (None, SHELL_TOOL) or any(call.name == named and shell_text(call) is not None for call in calls)


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
    """The call of another tool than a shell, by the JSON text of its parameters."""
    texts = parameter_haystacks(call.name, call.parameters)
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

    def sightings(self, helping: list[TypedCommand]) -> Iterator[Sighting]:
        """Add to `helping` the commands that speak for a recorded call."""
        program = self.recorded.program_of(self.call)
        items = self.recorded.commands_of(self.call)
        seen = False
        for command in program.commands:
            found = self.asked.found_in(command)
            item = items.get(id(command)) or TypedCommand(self.call, command, command)
            in_code = self._named_in_code(command)
            if in_code is not None:
                yield in_code
            elif found is not Found.NOWHERE:
                seen = seen or (found is not Found.MENTION and command.ran is not Ran.NO)
                if found is Found.COMMAND and command.ran is not Ran.NO and self.recorded.tools:
                    helping.append(item)
                yield self._of_command(item, found)
        if not seen and isinstance(self.asked, AskedPattern):
            yield from self._across(self.asked, items.values())
        for text in program.unparsed:
            match = self.asked.match_in(text)
            if match is not None:
                yield self._of_text(text, match)

    def _named_in_code(self, command: SimpleCommand) -> Sighting | None:
        """The command, when it is the code of an interpreter that may run what is asked for past the recorder."""
        if command.ran is Ran.NO:
            return None
        for path, text in named_by_path(command, self.recorded.tools):
            if self.asked.match_in(text):
                note = f"the code of an interpreter names {path}"
                return Sighting(command.raw, _source(self.call), Standing.GUARD_ONLY, None, note, note)
        return None

    def _of_command(self, item: TypedCommand, found: Found) -> Sighting:
        command = item.command
        standing, note = self._judged(item, found)
        why = command.why_unknown or "the call has no status"
        settled = not (self.recorded.tools and command.known and not command.known[0])
        unseen = standing is Standing.NOT_RUN and note.startswith(UNSEEN)
        return Sighting(
            command.raw, _source(self.call), standing, command.succeeded, why, note, settled, command.repeated, unseen
        )

    def _judged(self, item: TypedCommand, found: Found) -> tuple[Standing, str]:
        command = item.command
        if found is Found.EXCLUDED:
            return Standing.NOT_RUN, "excluded"
        if command.ran is Ran.NO:
            return Standing.NOT_RUN, "not run"
        tool = self.recorded.tool_of(item)
        if tool is not None:
            return self._beside_recorder(tool, item, found)
        if found is Found.MENTION:
            return Standing.NOT_RUN, "only mentioned"
        tool = None if item.own else self._recorded_name(command)
        if tool is not None:
            return Standing.NOT_RUN, f"names {tool}; its recorded calls decide"
        return _standing_of(command, found)

    def _beside_recorder(self, tool: str, item: TypedCommand, found: Found) -> tuple[Standing, str]:
        if self.recorded.calls_of(item):
            return Standing.NOT_RUN, f"{tool} is recorded; its calls decide"
        if found is Found.MENTION:
            return Standing.NOT_RUN, "only mentioned"
        if item.missing:
            return Standing.NOT_RUN, "no such program was found"
        if not named_program(item.called):
            return Standing.GUARD_ONLY, f"the program is a variable, and {UNSEEN} of {tool}"
        if not self.recorded.went_past(item):
            return Standing.NOT_RUN, f"{UNSEEN} of {tool}"
        if passes_by(item.called, self.recorded.shim_dir):
            return Standing.GUARD_ONLY, f"went past the recorder of {tool}"
        return Standing.GUARD_ONLY, f"past the recorder? {UNSEEN} of {tool}"

    def _recorded_name(self, command: SimpleCommand) -> str | None:
        """The recorded tool with which the match in a command of another program begins, or that this runs."""
        if not self.recorded.tools:
            return None
        match = self.asked.match_in(command.text)
        tool = self.recorded.decides(match.group()) if match else None
        if tool is not None:
            return tool
        for at, word in enumerate(command.words[1:], start=1):
            if word in self.recorded.tools and self.asked.match_in(" ".join(command.words[at:])):
                return word
        return None

    def _across(self, asked: AskedPattern, items: Collection[TypedCommand]) -> Iterator[Sighting]:
        kept = [item for item in items if self.recorded.tool_of(item) is None or self.recorded.calls_of(item)]
        by_command = {id(item.command): item for item in kept}
        for statement, commands in match_across(asked, self.text, [item.command for item in kept]):
            certain = all(command.ran is Ran.YES for command in commands)
            succeeded = True if all(self._succeeded(by_command[id(command)]) for command in commands) else None
            yield Sighting(
                statement,
                _source(self.call),
                Standing.RAN if certain else Standing.PERHAPS,
                succeeded,
                next((command.why_unknown for command in commands if command.why_unknown), "several commands"),
                "across commands",
                settled=not self.recorded.tools,
                repeated=any(command.repeated for command in commands),
            )

    def _succeeded(self, item: TypedCommand) -> bool | None:
        calls = self.recorded.calls_of(item)
        return all(call.exit_status == 0 for call in calls) if calls else item.command.succeeded

    def _of_text(self, text: str, match: re.Match[str]) -> Sighting:
        tool = self.recorded.decides(match.group())
        if tool is not None and match.string[: match.start()].endswith("/"):
            note = f"went past the recorder of {tool}, in text that could not be understood"
            return Sighting(text, _source(self.call), Standing.GUARD_ONLY, None, note, note)
        if tool is not None:
            return Sighting(text, _source(self.call), Standing.NOT_RUN, note=f"{tool} is recorded; its calls decide")
        standing = Standing.UNPROVEN if self.asked.texts_count else Standing.GUARD_ONLY
        note = "text that could not be understood"
        return Sighting(text, _source(self.call), standing, None, note, f"unproven: {note}")


def _standing_of(command: SimpleCommand, found: Found) -> tuple[Standing, str]:
    """What a command that no recorder sees is good for."""
    if found is Found.POSSIBLE:
        unknown = [word for word, known in zip(command.words, command.known, strict=True) if not known]
        return Standing.GUARD_ONLY, f"unknown: {' '.join(unknown)}" if unknown else "another program may run it"
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


def _recorded(asked: Asked, recorded: RecordedCalls, helping: Sequence[TypedCommand]) -> Iterator[Sighting]:
    spelled = {call.sequence: item for item in helping for call in recorded.calls_of(item)}
    for call in recorded.calls:
        by_itself = asked.answers(call)
        item = spelled.get(call.sequence) if asked.texts_count else None
        if not by_itself and item is None:
            continue
        if asked.excludes(call):
            yield _of_invocation(call, Standing.NOT_RUN, "excluded")
        elif by_itself or item is None:
            yield _of_invocation(call, Standing.RAN, "")
        else:
            yield _as_spelled(call, item, recorded)


def _as_spelled(call: Invocation, item: TypedCommand, recorded: RecordedCalls) -> Sighting:
    """The recorded call that a command of the transcript stands for, when only that is as asked for."""
    word = item.command.words[0]
    sighting = dataclasses.replace(_of_invocation(call, Standing.RAN, "as the transcript spells it"), settled=False)
    if not named_program(item.called) and named_by_variable(word) != call.tool.casefold():
        why = f"the program is {word}"
        return dataclasses.replace(sighting, standing=Standing.PERHAPS, succeeded=None, why_unknown=why)
    if recorded.is_open(item):
        return dataclasses.replace(sighting, succeeded=None, why_unknown="another recorded call may be it")
    return sighting


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
