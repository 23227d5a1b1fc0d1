"""Statements as they would run, from the first to the last."""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator, Sequence

from .carrying import Statuses, carries
from .data import reads_all
from .expansion import Text, expand, output_of_simple, text_of_word
from .lowering import read_script
from .outcomes import (
    ANY,
    IGNORED,
    JUMPS,
    LOOP,
    NEGATE,
    ROUND,
    SUBSHELL,
    Branch,
    Carried,
    Chain,
    Choice,
    Ends,
    Fixed,
    Loop,
    Mapped,
    Pipe,
    Repeated,
    Series,
    Skipped,
    Table,
    Trace,
    Unsure,
)
from .program import SimpleCommand
from .scope import Scope
from .simple import DEEPEST_CALL, checked, inner_traces, redirect_traces, simple, substituted
from .syntax import (
    AndOr,
    Arithmetic,
    Block,
    Case,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Item,
    Negated,
    Pipeline,
    Simple,
    Statement,
    While,
    Word,
)
from .writes import Writes, writes_of

MOST_ROUNDS = 100
"""Rounds of a loop that are followed one by one."""
MOST_COMMANDS = 2000
"""Commands that rounds, calls and nested shells may add up to; what is beyond is not followed."""
MOST_NESTED = 400_000
"""Characters of all nested texts together that are followed."""

_BACKGROUND: Table = {**IGNORED, Ends.KILLED: Ends.OK}


class Evaluator:
    """Follows one text. `commands` holds what was judged, `unparsed` nested texts that were not understood."""

    def __init__(self, *, killable: bool) -> None:
        self.killable = killable
        self.commands: list[SimpleCommand] = []
        self.unparsed: list[str] = []
        self.handlers: list[tuple[Trace, bool]] = []
        """What `trap` runs later, and whether it may change the status of the whole."""
        self.interrupted = False
        """Whether a trap may run between two statements."""
        self._followed = 0
        self._nested = 0
        self._writes: dict[int, tuple[Statement, Writes]] = {}
        self._functions: dict[int, tuple[Function, Scope]] = {}

    def report(self, command: SimpleCommand) -> None:
        """Note a command that was judged."""
        self.commands.append(command)

    def may_go_deeper(self, scope: Scope, text: str = "") -> bool:
        """Whether a further function, or a nested shell with `text`, is followed."""
        self._nested += len(text)
        return scope.depth < DEEPEST_CALL and self._followed < MOST_COMMANDS and self._nested < MOST_NESTED

    def script(self, text: str, scope: Scope) -> Trace:
        """Return the trace of a nested text."""
        script = read_script(text)
        trace = self.block(script.block, scope)
        if not script.unparsed:
            return trace
        self.unparsed.extend(script.unparsed)
        return Unsure(trace)

    def handler(self, text: str | None, signals: Sequence[str], scope: Scope) -> None:
        """Note what `trap` runs later, None where that is not known."""
        self.interrupted = self.interrupted or any(signal not in ("EXIT", "0") for signal in signals)
        at_exit = any(signal in ("EXIT", "0", "ERR") for signal in signals)
        if text in ("", "-"):
            return
        if text is None or not self.may_go_deeper(scope, text):
            self.handlers.append((Fixed(ANY), at_exit))
            return
        inside = scope.copy()
        inside.depth += 1
        trace = self.script(text, inside)
        self.handlers.append((trace, at_exit and bool(trace.ends & (Ends.EXIT_OK | Ends.EXIT_FAIL))))

    def called(self, body: Statement) -> None:
        """Note that a function is called."""
        self._functions.pop(id(body), None)

    def not_called(self) -> Iterator[Trace]:
        """Yield the traces of functions that were defined and never called."""
        for function, scope in list(self._functions.values()):
            yield self.statement(function.body, scope)

    def block(self, block: Block, scope: Scope) -> Trace:
        """Return the trace of statements after each other."""
        traces: list[Trace] = []
        statuses = Statuses()
        for item in block.items:
            trace = self._item(item, scope)
            carried = carries(item)
            first = statuses.number(carried.name, len(traces)) if carried is not None else None
            if carried is not None and first is not None and (carried.name == "?" or not self.interrupted):
                traces[first:] = [Carried(traces[first], Series(traces[first + 1 :]), trace, carried.table)]
                statuses.forget()
                continue
            if statuses:
                statuses.change(self._writes_of(item.statement), scope)
            statuses.keep(item, len(traces), scope)
            traces.append(trace)
        return traces[0] if len(traces) == 1 else Series(traces)

    def _item(self, item: Item, scope: Scope) -> Trace:
        if not item.background:
            return self.statement(item.statement, scope)
        return Mapped(Mapped(self.statement(item.statement, scope.copy()), SUBSHELL), _BACKGROUND, "&")

    def statement(self, statement: Statement, scope: Scope, piped: str | None = None) -> Trace:
        """Return the trace of a statement, and change `scope` as it would."""
        if isinstance(statement, Simple):
            self._followed += scope.depth > 0 or scope.in_loop
            return simple(statement, self, scope, piped)
        if isinstance(statement, Block):
            return self.block(statement, scope)
        if isinstance(statement, AndOr):
            return self._and_or(statement, scope)
        if isinstance(statement, Pipeline):
            return self._pipeline(statement, scope)
        if isinstance(statement, Negated):
            with _unchecked(scope):
                return Mapped(self.statement(statement.body, scope), NEGATE)
        if isinstance(statement, Group):
            return self._group(statement, scope)
        if isinstance(statement, If):
            return self._if(statement.clauses, statement.otherwise, scope)
        if isinstance(statement, Function):
            scope.functions[statement.name] = statement.body
            self._functions[id(statement.body)] = (statement, scope.copy())
            return Fixed(Ends.OK)
        return self._more(statement, scope)

    def _more(self, statement: While | For | CountingFor | Case | Arithmetic, scope: Scope) -> Trace:
        if isinstance(statement, While):
            return self._while(statement, scope)
        if isinstance(statement, For):
            return self._for(statement, scope)
        if isinstance(statement, CountingFor):
            header = [substituted(found, self, scope) for found in statement.header]
            _forget(scope, statement.names)
            return Series([*header, self._some_rounds(statement.body, scope, at_least_once=False)])
        if isinstance(statement, Case):
            return self._case(statement, scope)
        _forget(scope, statement.names)
        inner = [substituted(found, self, scope) for found in statement.inner]
        return Series([*inner, checked(Fixed(ANY), scope)])

    def _and_or(self, statement: AndOr, scope: Scope) -> Trace:
        last = len(statement.parts) - 1
        with _unchecked(scope):
            traces = [self.statement(statement.parts[0], scope)]
        after: dict[Ends, Scope] = {Ends.OK: scope.copy(), Ends.FAIL: scope.copy()}
        prefix = traces[0].ends
        whens: list[Ends] = []
        for index, operator in enumerate(statement.operators, start=1):
            when, other = (Ends.OK, Ends.FAIL) if operator == "&&" else (Ends.FAIL, Ends.OK)
            inside = after[when].copy()
            inside.checked = scope.checked and index == last
            trace = self.statement(statement.parts[index], inside)
            inside.checked = scope.checked
            traces.append(trace)
            whens.append(when)
            reached = bool(prefix & when)
            after[when] = inside
            if reached and trace.ends & other:
                if prefix & other:
                    after[other].merge(inside)
                else:
                    after[other] = inside.copy()
            prefix = (prefix & ~when) | (trace.ends if reached else Ends.NONE)
        left = [state for end, state in after.items() if prefix & end]
        if left:
            scope.adopt(left[0].copy())
            for state in left[1:]:
                scope.merge(state)
        return Chain(traces, whens)

    def _pipeline(self, statement: Pipeline, scope: Scope) -> Trace:
        traces: list[Trace] = []
        piped: str | None = None
        readers = [_reads_all(part) for part in statement.parts]
        early = max((index for index, reads in enumerate(readers) if not reads), default=0)
        for index, part in enumerate(statement.parts):
            inside = scope.copy()
            inside.broken_pipe = scope.broken_pipe or index < early
            output = output_of_simple(part, inside) if isinstance(part, Simple) else None
            traces.append(Mapped(self.statement(part, inside, piped), SUBSHELL))
            piped = output
        return checked(Pipe(traces, scope.pipefail), scope)

    def _group(self, statement: Group, scope: Scope) -> Trace:
        before = redirect_traces(statement.redirects, self, scope)
        if statement.subshell:
            trace: Trace = checked(Mapped(self.statement(statement.body, scope.copy()), SUBSHELL), scope)
        else:
            trace = self.statement(statement.body, scope)
        return Series([*before, trace]) if before else trace

    def _if(self, clauses: Sequence[tuple[Block, Block]], otherwise: Block | None, scope: Scope) -> Trace:
        if not clauses:
            return self.block(otherwise, scope) if otherwise is not None else Fixed(Ends.OK)
        condition, body = clauses[0]
        with _unchecked(scope):
            test = self.block(condition, scope)
        taken, rest = scope.copy(), scope.copy()
        then = self.block(body, taken)
        other = self._if(clauses[1:], otherwise, rest)
        left = [
            state
            for state, can in (
                (taken, test.ends & Ends.OK and then.ends & ANY),
                (rest, test.ends & Ends.FAIL and other.ends & ANY),
            )
            if can
        ]
        _join(scope, left)
        return Branch(test, then, other)

    def _forget_written(self, scope: Scope, statement: Statement) -> None:
        """Forget what a statement, or a function that it may call, changes in other rounds than the one followed."""
        for part in (statement, *scope.functions.values()):
            if part is None:
                continue
            writes = self._writes_of(part)
            _forget(scope, writes.names)
            if writes.options:
                scope.errexit = scope.pipefail = scope.positional = None

    def _writes_of(self, statement: Statement) -> Writes:
        if id(statement) not in self._writes:
            self._writes[id(statement)] = (statement, writes_of(statement))
        return self._writes[id(statement)][1]

    def _while(self, statement: While, scope: Scope) -> Trace:
        self._forget_written(scope, statement)
        goes_on = Ends.FAIL if statement.until else Ends.OK
        with _unchecked(scope), _looping(scope):
            condition = self.block(statement.condition, scope)
        inside = scope.copy()
        with _looping(inside):
            body = Mapped(self.block(statement.body, inside), ROUND)
        scope.merge(inside)
        return Mapped(Loop(condition, body, goes_on), LOOP)

    def _for(self, statement: For, scope: Scope) -> Trace:
        if statement.words is None:
            texts = None if scope.positional is None else [Text(text) for text in scope.positional]
            before: list[Trace] = []
        else:
            before = list(inner_traces(statement.words, self, scope))
            texts = expand(statement.words, scope)
        if texts is None or statement.select or not self._can_unroll(texts):
            scope.variables[statement.name] = None
            certain = not statement.select and any(text.certain for text in texts or [])
            trace = self._some_rounds(statement.body, scope, at_least_once=certain)
        else:
            trace = self._rounds(statement, texts, scope)
        return Series([*before, trace]) if before else trace

    def _can_unroll(self, texts: Sequence[Text]) -> bool:
        return len(texts) <= MOST_ROUNDS and all(text.single for text in texts) and self._followed < MOST_COMMANDS

    def _rounds(self, statement: For, texts: Sequence[Text], scope: Scope) -> Trace:
        if not texts:
            return Skipped(self._some_rounds(statement.body, scope.copy(), at_least_once=True))
        traces: list[Trace] = []
        for text in texts:
            scope.variables[statement.name] = text.text if text.known else None
            with _looping(scope):
                trace = self.block(statement.body, scope)
            traces.append(Mapped(trace, ROUND))
            if trace.ends & (JUMPS):
                self._forget_written(scope, statement.body)
        return Mapped(Series(traces), LOOP)

    def _some_rounds(self, body: Block, scope: Scope, *, at_least_once: bool) -> Trace:
        self._forget_written(scope, body)
        inside = scope.copy()
        with _looping(inside):
            trace: Trace = Mapped(Mapped(Repeated(self.block(body, inside)), ROUND), LOOP)
        scope.merge(inside)
        return trace if at_least_once else Choice([trace], Ends.OK)

    def _case(self, statement: Case, scope: Scope) -> Trace:
        before = list(inner_traces([statement.subject], self, scope))
        subject = text_of_word(statement.subject, scope)
        options: list[Trace] = []
        states: list[Scope] = []
        skipped: list[Trace] = []
        decided = False
        if any(item.goes_on for item in statement.items):
            return Series([*before, *self._any_items(statement, scope)])
        for item in statement.items:
            inside = scope.copy()
            trace = self.block(item.body, inside)
            match = _matches(subject, item.patterns, scope)
            if decided or match is False:
                skipped.append(Skipped(trace))
                continue
            decided = match is True
            options.append(trace)
            if trace.ends & ANY:
                states.append(inside)
        if not decided:
            states.append(scope.copy())
        _join(scope, states)
        choice = Choice(options, Ends.NONE if decided else Ends.OK)
        return Series([*before, *skipped, choice])

    def _any_items(self, statement: Case, scope: Scope) -> Iterator[Trace]:
        """Yield the branches of a `case` of which several may run, each or not."""
        for item in statement.items:
            inside = scope.copy()
            yield Choice([self.block(item.body, inside)], ANY)
            scope.merge(inside)


def _matches(subject: Text, patterns: Sequence[Word], scope: Scope) -> bool | None:
    """Whether a `case` takes a branch, or None when that is not known."""
    found = [text_of_word(pattern, scope) for pattern in patterns]
    if any(pattern.known and pattern.text == "*" for pattern in found):
        return True
    if not subject.known or not all(pattern.known for pattern in found):
        return None
    if any(character in pattern.text for pattern in found for character in "[]()\\|!@+"):
        return True if any(pattern.text == subject.text for pattern in found) else None
    return any(fnmatch.fnmatchcase(subject.text, pattern.text) for pattern in found)


def _reads_all(statement: Statement) -> bool:
    return isinstance(statement, Simple) and reads_all([word.source for word in statement.words])


def _join(scope: Scope, states: Sequence[Scope]) -> None:
    if states:
        scope.adopt(states[0].copy())
        for state in states[1:]:
            scope.merge(state)


def _forget(scope: Scope, names: Sequence[str] | frozenset[str]) -> None:
    for name in names:
        scope.variables[name] = None


@contextlib.contextmanager
def _unchecked(scope: Scope) -> Iterator[None]:
    before = scope.checked
    scope.checked = False
    try:
        yield
    finally:
        scope.checked = before


@contextlib.contextmanager
def _looping(scope: Scope) -> Iterator[None]:
    before = scope.in_loop
    scope.in_loop = True
    try:
        yield
    finally:
        scope.in_loop = before
