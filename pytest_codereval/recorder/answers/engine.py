"""The reply engine: rules, handlers, cassettes and fallbacks of all tools of a trial, and the state that they share."""

from __future__ import annotations

import collections
import copy
import dataclasses
import inspect
import os
import signal
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import Cause, CoderEvalError, TrialError
from ...sandbox.workspace import Unreadable, Workspace
from ...text import shorten
from ..answering import Answer, CapturedRun, Later, Printed, ReadStdin, Request, RunReal, ShimPlan, call_text
from ..argv import ArgvPattern
from ..directories import seen_from_workspace
from .call import ABSENT, Call, Copy, Passthrough, Reply, StdinNeeded, Write
from .cassette import Entry, save
from .effects import EffectRefused, MakeFolder, Place, WriteFile, read_tree
from .replies import HandlerStep, PassthroughStep, PrintStep, Steps
from .rules import Facts
from .templates import encode, json_line
from .tool_answers import Rule, ToolAnswers

if TYPE_CHECKING:
    from ...task.reply_tables import ToolTable

MAX_FAULTS = 20
"""Different faults that are kept; the agent may repeat one as often as it likes."""

Handler = Callable[[Call], object]

_Decided = Printed | RunReal | Later
_KILLED = range(129, 128 + signal.NSIG)


class Answers:
    """Answers the calls of all recorded tools of a trial; see `answering.Answerer`.

    Files of replies and cassettes are read when this is made. `workspace_root` is the workspace as callers see it, an
    absolute real path; `write_file` and `make_folder` write into it, never through a link that leaves it.
    `find_handler` returns the function that a text names in a task or table of this folder. `trial` is this trial's
    name in cassettes.

    Raises TrialError(CONFIGURATION) for a file that cannot be used and for a handler that is not found.
    """

    def __init__(
        self,
        tables: Sequence[ToolTable],
        *,
        workspace_root: Path,
        write_file: WriteFile,
        make_folder: MakeFolder,
        find_handler: Callable[[str, Path], Handler],
        trial: str,
    ) -> None:
        self._trial = trial
        self._root = workspace_root
        self._workspace = Workspace(workspace_root)
        self._whole = Place(workspace_root, write_file, make_folder)
        self._tools = {table.tool.tool: ToolAnswers(table, trial) for table in tables}
        self._state: dict[str, Any] = {}
        self._faults: dict[str, None] = {}
        self._running: dict[tuple[str, tuple[str, ...], str], collections.deque[RunReal]] = {}
        self._recorded: list[Entry] = []
        self._turn: _Turn | None = None
        self._handlers: dict[HandlerStep, Handler] = {}
        for tool in self._tools.values():
            for step, origin in tool.handlers():
                try:
                    self._handlers[step] = find_handler(step.name, step.folder)
                except TrialError as error:
                    what = f"sandbox.record_cli: {tool.name}: {origin}: {error}"
                    raise TrialError(Cause.CONFIGURATION, what) from error.__cause__

    @property
    def faults(self) -> tuple[str, ...]:
        """What the author of rules and handlers did wrong, as it showed in a call: tool, rule or handler, exception."""
        return tuple(self._faults)

    @property
    def at_work(self) -> str:
        """Which rule or handler is giving the answer in the making, or gave the last one; "" before any."""
        return "" if self._turn is None else self._turn.who

    def plans(self) -> tuple[ShimPlan, ...]:
        """How the shim of each tool works."""
        return tuple(tool.plan() for tool in self._tools.values())

    def reset(self) -> None:
        """Forget state, counters, faults and what was recorded: the calls until now were not the agent's."""
        self._state.clear()
        self._faults.clear()
        self._running.clear()
        self._recorded.clear()
        for tool in self._tools.values():
            tool.reset()

    def caller_left(self) -> None:
        """See `answering.Answerer`. What a rule or handler has begun is finished: it may have effects."""

    def save(self) -> None:
        """Write what was recorded into the cassettes. A tool that recorded nothing leaves its cassette as it was.

        Raises TrialError(CONFIGURATION) when one cannot be written.
        """
        by_path: dict[Path, list[ToolAnswers]] = {}
        for tool in self._tools.values():
            if tool.record_to is not None:
                by_path.setdefault(tool.record_to, []).append(tool)
        for path, tools in by_path.items():
            names = {tool.name for tool in tools}
            entries = [entry for entry in self._recorded if entry.tool in names]
            replaced = {tool.name for tool in tools if not tool.extends_cassette} & {entry.tool for entry in entries}
            if entries:
                save(path, self._trial, entries, replaced)

    def answer(self, request: Request) -> Answer:
        """Answer a call. A call whose answer depends on standard input is answered by ReadStdin until that is there."""
        tool = self._tools.get(request.tool)
        self._turn = turn = _Turn(request, tool)
        try:
            if tool is None:
                raise LookupError("no such tool is recorded")
            if request.run is not None:
                return self._captured(request)
            return self._taken(tool, request, turn)
        except StdinNeeded:
            return ReadStdin()
        except BaseException as error:
            return self._failed(turn, error)

    def _finished(self, turn: _Turn, finish: Callable[[], Printed]) -> Printed:
        """Settle an answer whose delay has passed."""
        self._turn = turn
        try:
            return dataclasses.replace(finish(), unmatched=turn.unmatched)
        except BaseException as error:
            return self._failed(turn, error)

    def _failed(self, turn: _Turn, error: BaseException) -> Printed:
        message = str(error) if isinstance(error, EffectRefused) else "internal error"
        if not isinstance(error, EffectRefused):
            self._keep_fault(turn, error)
        stderr = encode(f"{turn.request.tool}: {message}\n")
        return Printed(turn.answered_by, stderr=stderr, exit_status=1, unmatched=turn.unmatched)

    def _taken(self, tool: ToolAnswers, request: Request, turn: _Turn) -> _Decided:
        """Decide, and count the call unless its standard input has to be read first."""
        undo = _Undo(self._state)
        try:
            answer = self._decided(tool, request, turn, undo)
        except StdinNeeded:
            undo.restore()
            raise
        except BaseException:
            tool.count(turn.counted, turn.used)
            raise
        tool.count(turn.counted, turn.used)
        answer = dataclasses.replace(answer, unmatched=turn.unmatched)
        if isinstance(answer, RunReal) and answer.capture:
            self._running.setdefault(_key(request), collections.deque()).append(answer)
        return answer

    def _decided(self, tool: ToolAnswers, request: Request, turn: _Turn, undo: _Undo) -> _Decided:
        cwd = seen_from_workspace(request.cwd, self._root)
        facts = Facts(request.argv, cwd, request.environment, self._state, _decoded(request.stdin))
        turn.counted = {
            rule.index
            for rule in tool.rules
            if rule.match.nth is not None and rule.match.stdin is None and turn.at(rule).match.holds(facts)
        }
        for rule in tool.rules:
            if tool.applies(turn.at(rule), facts, turn.counted):
                answer = self._from_steps(rule.steps, rule.match.pattern, tool, facts, turn, undo)
                if answer is not None:
                    return answer
        if tool.handler is not None:
            turn.source = turn.key = "handler"
            answer = self._from_steps((tool.handler,), tool.reading, tool, facts, turn, undo)
            if answer is not None:
                return answer
        if tool.replay is not None and (entry := tool.replay.answer(request.argv, request.stdin)) is not None:
            return Printed("cassette", entry.stdout, entry.stderr, entry.exit_status)
        turn.source = turn.key = "fallback"
        turn.answered_by, turn.unmatched = tool.fallback_name, tool.matches_something
        answer = self._from_steps(tool.fallback, tool.reading, tool, facts, turn, undo)
        if answer is None:
            raise TypeError("the handler returned None, and nothing else is there to answer")
        return answer

    def _from_steps(
        self, steps: Steps, reading: ArgvPattern, tool: ToolAnswers, facts: Facts, turn: _Turn, undo: _Undo
    ) -> _Decided | None:
        """The next of the replies; None when it is a handler that does not answer."""
        step = steps[min(tool.turns.get(turn.key, 0), len(steps) - 1)]
        turn.used.append(turn.key)
        call = Call(
            tool.name,
            facts.argv,
            cwd=facts.cwd,
            env=facts.env,
            stdin=facts.stdin,
            state=self._state,
            nth=tool.calls + 1,
            workspace=self._workspace,
            reading=reading,
        )
        if isinstance(step, PrintStep):
            return self._printed(step, call, turn)
        if isinstance(step, PassthroughStep):
            return _run_real(tool, step.delay)
        turn.answered_by, turn.handler = "handler", step.name
        undo.prepare()
        answer = self._handled(step, tool, call, turn)
        if answer is None:
            turn.handler = None
            turn.used.pop()
        return answer

    def _printed(self, step: PrintStep, call: Call, turn: _Turn) -> Printed | Later:
        if step.asks_stdin and not call.stdin_is_read:
            raise StdinNeeded
        if step.is_fixed:
            return dataclasses.replace(self._print(step, call, turn), delay=step.delay)
        return self._after(step.delay, turn, lambda: self._print(step, call, turn))

    def _after(self, delay: float, turn: _Turn, finish: Callable[[], Printed]) -> Printed | Later:
        if not delay:
            return finish()
        return Later(turn.answered_by, delay, lambda: self._finished(turn, finish))

    def _print(self, step: PrintStep, call: Call, turn: _Turn) -> Printed:
        answer = Printed(turn.answered_by, step.stdout.produce(call), step.stderr.produce(call), step.exit_status)
        state = [(name, None if text is None else text.render(call)) for name, text in step.set_state]
        place = self._place(call.cwd if step.from_caller else ".")
        for effect in step.effects:
            effect.do(call, place)
        for name, value in state:
            if value is None:
                self._state.pop(name, None)
            else:
                self._state[name] = value
        return answer

    def _handled(self, step: HandlerStep, tool: ToolAnswers, call: Call, turn: _Turn) -> _Decided | None:
        try:
            result = self._handlers[step](call)
        except Unreadable as error:
            raise EffectRefused(error.reason) from error
        finally:
            if call.stdin_was_asked:
                raise StdinNeeded
        if result is None:
            return None
        if isinstance(result, Passthrough):
            return _run_real(tool, 0.0)
        reply = _reply_of(result)
        stdout = _as_bytes(reply.stdout) if reply.json is ABSENT else json_line(reply.json)
        answer = Printed("handler", stdout, _as_bytes(reply.stderr), reply.exit_code)
        if not reply.effects:
            return dataclasses.replace(answer, delay=reply.delay)

        def finish() -> Printed:
            _do_effects(reply.effects, self._place(call.cwd), step.folder)
            return answer

        return self._after(reply.delay, turn, finish)

    def _captured(self, request: Request) -> Printed:
        """Print what the real program printed, and keep it when it was run for this call."""
        assert request.run is not None
        run = request.run
        waiting = self._running.get(_key(request))
        started = waiting.popleft() if waiting else None
        if started is not None:
            self._keep_run(request, run)
        unmatched = started is not None and started.unmatched
        return Printed("passthrough", run.stdout, run.stderr, run.exit_status, unmatched=unmatched)

    def _keep_run(self, request: Request, run: CapturedRun) -> None:
        """Keep it for the cassette, unless a signal ended it: that says nothing of how the program answers."""
        status = run.exit_status & 0xFF
        if status not in _KILLED:
            entry = Entry(request.tool, request.argv, status, run.stdout, run.stderr, self._trial, request.stdin)
            self._recorded.append(entry)

    def _place(self, directory: str) -> Place:
        return dataclasses.replace(self._whole, directory="." if directory.startswith("/") else directory)

    def _keep_fault(self, turn: _Turn, error: BaseException) -> None:
        if len(self._faults) >= MAX_FAULTS:
            return
        tool, call = turn.request.tool, call_text(turn.request.tool, turn.request.argv)
        what = f"{shorten(_text_of(error), 1000)}{_place_of(error)}"
        self._faults.setdefault(f"{tool}: {turn.who}: {what}; the call was: {call}")


class _Turn:
    """What is known of the answer to one call while it is decided; told also when it fails.

    `source` names rule, handler or fallback as its author knows it, `key` tells them apart. `counted` are the rules
    with `nth` that the call counts for, `used` the keys of those whose replies it took.
    """

    def __init__(self, request: Request, tool: ToolAnswers | None) -> None:
        self.request = request
        self.source = self.key = "fallback"
        self.answered_by = "fallback" if tool is None else tool.fallback_name
        self.handler: str | None = None
        self.unmatched = False
        self.counted: set[int] = set()
        self.used: list[str] = []

    @property
    def who(self) -> str:
        """Rule, handler or both, for a message."""
        if self.handler is None:
            return self.source
        return f"handler {self.handler!r}" if self.source == "handler" else f"{self.source}: handler {self.handler!r}"

    def at(self, rule: Rule) -> Rule:
        """Say that it is about `rule` now."""
        self.source = rule.origin
        self.key = self.answered_by = f"rule {rule.index}"
        return rule


class _Undo:
    """Puts the state back to what it was before the first handler ran for a call."""

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state
        self._before: dict[str, Any] | None = None
        self._problem: Exception | None = None

    def prepare(self) -> None:
        """Remember the state; the first time counts."""
        if self._before is None and self._problem is None:
            try:
                self._before = copy.deepcopy(self._state)
            except Exception as error:
                self._problem = error

    def restore(self) -> None:
        """Raises TypeError when the state holds what cannot be copied."""
        if self._problem is not None:
            raise TypeError(f"call.state holds what cannot be copied ({self._problem}), so stdin cannot be read")
        if self._before is not None:
            self._state.clear()
            self._state.update(self._before)


def _key(request: Request) -> tuple[str, tuple[str, ...], str]:
    return request.tool, request.argv, request.cwd


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _as_bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else encode(content)


def _run_real(tool: ToolAnswers, delay: float) -> RunReal:
    return RunReal("passthrough", capture=tool.record_to is not None, delay=delay)


def _reply_of(result: object) -> Reply:
    if isinstance(result, Reply):
        return result
    if isinstance(result, str):
        return Reply(stdout=result)
    if isinstance(result, dict | list):
        return Reply(json=result)
    if inspect.iscoroutine(result):
        result.close()
    kind = type(result).__name__
    raise TypeError(f"the handler returned {kind}; expected Reply, str, dict, list, Passthrough or None")


def _do_effects(effects: Sequence[Write | Copy], place: Place, folder: Path) -> None:
    for effect in effects:
        if isinstance(effect, Write):
            place.write(os.fsdecode(effect.path), _as_bytes(effect.content))
        else:
            place.copy(read_tree(folder / os.fsdecode(effect.source)), os.fsdecode(effect.to))


def _text_of(error: BaseException) -> str:
    try:
        return str(error) if isinstance(error, CoderEvalError) else f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__


def _place_of(error: BaseException) -> str:
    """Where in an author's function the error arose, "" for an error of ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = max((number for number, frame in enumerate(frames) if frame.filename == __file__), default=-1)
    if ours + 1 >= len(frames) or Path(frames[ours + 1].filename).is_relative_to(Path(__file__).parents[2]):
        return ""
    return f" ({Path(frames[ours + 1].filename).name}:{frames[ours + 1].lineno})"
