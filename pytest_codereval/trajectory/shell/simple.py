"""Simple commands: what they run in the end."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from . import builtins
from .data import FINDERS, data_of, executed_by_find
from .expansion import Text, expand, optional_substitutions, output_of, substitutions, text_of_word
from .outcomes import (
    ANY,
    CALL,
    ERREXIT,
    EXITS,
    IGNORED,
    MAYBE_ERREXIT,
    SUBSHELL,
    UNTOLD,
    Apart,
    Choice,
    Ends,
    Fixed,
    Leaf,
    Mapped,
    Pipe,
    Repeated,
    Series,
    Skipped,
    Trace,
)
from .prefixes import ShellCall, Stripped, Xargs, replaces_path, shell_call, strip
from .program import Ran, SimpleCommand
from .scope import Scope, Value
from .syntax import Assignment, Block, Redirect, Simple, Statement, Substitution, Word

DEEPEST_CALL = 12
"""Functions and nested shells that are followed into each other."""
MOST_ARGUMENTS = 100
"""Words of an input from which `xargs` is followed."""

DEEPEST_FIND = 3
"""Programs `find` that are followed into each other."""

_SUBSTITUTED = "$( )"


class Runner(Protocol):
    """What runs the statements inside a command."""

    killable: bool

    def block(self, block: Block, scope: Scope) -> Trace:
        """Return the trace of statements."""

    def statement(self, statement: Statement, scope: Scope) -> Trace:
        """Return the trace of a statement."""

    def script(self, text: str, scope: Scope) -> Trace:
        """Return the trace of a shell text."""

    def report(self, command: SimpleCommand) -> None:
        """Note a command that was judged."""

    def called(self, body: Statement) -> None:
        """Note that a function is called."""

    def may_go_deeper(self, scope: Scope, text: str = "") -> bool:
        """Whether a further function, or a nested shell with `text`, is followed."""

    def handler(self, text: str | None, signals: Sequence[str], scope: Scope) -> None:
        """Note what `trap` runs later, None where that is not known."""


def checked(trace: Trace, scope: Scope) -> Trace:
    """Return the trace of a command whose failure counts for `set -e` where that is on."""
    if not scope.checked or scope.errexit is False:
        return trace
    return Mapped(trace, ERREXIT if scope.errexit else MAYBE_ERREXIT)


def substituted(found: Substitution, run: Runner, scope: Scope, *, ignored: bool = True) -> Trace:
    """Return the trace of a substitution, whose status usually counts for nothing."""
    inside = scope.copy()
    inside.errexit = None if inside.errexit else inside.errexit
    trace = Mapped(run.block(found.body, inside), SUBSHELL)
    return Mapped(trace, IGNORED, _SUBSTITUTED) if ignored else trace


def inner_traces(words: Sequence[Word], run: Runner, scope: Scope) -> Iterator[Trace]:
    """Yield the traces of the substitutions in words."""
    for word in words:
        for found in substitutions(word):
            yield substituted(found, run, scope)
        for found in optional_substitutions(word):
            yield Choice([substituted(found, run, scope)], Ends.OK)


def redirect_traces(redirects: Sequence[Redirect], run: Runner, scope: Scope) -> list[Trace]:
    """Return the traces of the substitutions in redirections."""
    words = [word for redirect in redirects for word in (redirect.target, redirect.text) if word is not None]
    return list(inner_traces(words, run, scope))


def assignment_words(assignment: Assignment) -> tuple[Word, ...]:
    """Return the words whose expansion an assignment needs."""
    return (assignment.value,) if assignment.value is not None else assignment.items or ()


def simple(statement: Simple, run: Runner, scope: Scope, piped: str | None = None) -> Trace:
    """Return the trace of a simple command. `piped` is what it reads from a pipe, where that is known."""
    before = redirect_traces(statement.redirects, run, scope)
    if not statement.words and not statement.declared:
        return _assignments(statement, before, run, scope)
    for assignment in (*statement.assignments, *(item for item in statement.declared if isinstance(item, Assignment))):
        before.extend(inner_traces(assignment_words(assignment), run, scope))
        before.extend(substituted(found, run, scope) for found in assignment.inner)
    if not statement.declared:
        before.extend(inner_traces(statement.words, run, scope))
    command = _Command(statement, run, scope, piped)
    trace = command.trace()
    return Series([*before, trace]) if before else trace


def _assignments(statement: Simple, before: list[Trace], run: Runner, scope: Scope) -> Trace:
    last: list[Trace] = []
    for assignment in statement.assignments:
        words = assignment_words(assignment)
        found = [part for word in words for part in substitutions(word)] + list(assignment.inner)
        traces = [substituted(part, run, scope) for part in found[:-1]]
        traces += [substituted(part, run, scope, ignored=False) for part in found[-1:]]
        for word in words:
            traces += [Choice([substituted(part, run, scope)], Ends.OK) for part in optional_substitutions(word)]
        if traces:
            before += [Mapped(trace, IGNORED, _SUBSTITUTED) for trace in last]
            before += traces[:-1]
            last = traces[-1:]
        builtins.assign(assignment, scope)
    traces = before + [checked(trace, scope) for trace in last]
    if any(redirect.target is not None and not last for redirect in statement.redirects):
        traces.append(checked(Fixed(ANY), scope))
    return Series(traces) if traces else Fixed(Ends.OK)


@dataclasses.dataclass
class _Command:
    statement: Simple
    run: Runner
    scope: Scope
    piped: str | None
    executed_by: int = 0
    """How many `find` run it."""

    def trace(self) -> Trace:
        statement, scope = self.statement, self.scope
        words = expand(statement.words, scope)
        if not words:
            return checked(Fixed(ANY), scope)
        self.variables: dict[str, Value] = {}
        for assignment in statement.assignments:
            value = text_of_word(assignment.value, scope) if assignment.value is not None else Text("", False)
            self.variables[assignment.name] = value.text if value.known else None
        self.stripped = strip(words, scope.functions)
        self.variables.update(self.stripped.variables)
        self.stdin = self._stdin()
        trace = self._run(self.stripped) if self.stripped.xargs is None else self._xargs(self.stripped.xargs)
        trace = _launched(trace, self.stripped)
        if self.stripped.replaces_shell:
            return Mapped(Mapped(trace, SUBSHELL), EXITS)
        return checked(trace, scope)

    def _xargs(self, way: Xargs) -> Trace:
        """A command that `xargs` runs, where its input is known once or once for each line, else some times."""
        given = self.stdin if self.stdin is not None else self.piped
        stripped = self.stripped
        if given is None or re.search(r"['\"\\]", given) or len(given.split()) > MOST_ARGUMENTS or not way.plain:
            words = _with_unknown(stripped.words, way.replaced) if way.replaced else stripped.words
            some = Repeated(self._run(dataclasses.replace(stripped, words=words)))
            return some if (given or "").strip() else Choice([some], Ends.OK)
        if not way.replaced:
            words = (*stripped.words, *(Text(word) for word in given.split()))
            trace = self._run(dataclasses.replace(stripped, words=words))
            return trace if given.split() else Choice([trace], Ends.OK)
        traces = []
        for line in given.splitlines():
            line = line.lstrip()
            words = tuple(Text(word.text.replace(way.replaced, line), word.known) for word in stripped.words)
            traces.append(self._run(dataclasses.replace(stripped, words=words)))
        return Pipe(traces, pipefail=True) if traces else Fixed(Ends.OK)

    def _run(self, stripped: Stripped) -> Trace:
        words, scope = stripped.words, self.scope
        name = words[0].text
        if stripped.text is not None:
            return self._nested(
                self._without_substitutions(stripped.text.text), scope.child(self.variables), "", same=False
            )
        if stripped.functions and words[0].known and name in scope.functions:
            return self._call(scope.functions[name], [word.text for word in words[1:]])
        call = shell_call(words)
        if call is not None:
            inner = self._shell(call)
            if inner is not None:
                texts = [call.text.text] if call.text is not None else []
                return inner if call.runs else Series([Skipped(inner), self._leaf(ANY, words, texts)])
        if name == "eval" and len(words) > 1 and all(word.known for word in words):
            return self._nested(" ".join(word.text for word in words[1:]), scope, "eval", same=True)
        if name in (".", "source") and len(words) > 1:
            text = self._sourced(words)
            if text is not None:
                return self._nested(text, scope, name, same=True)
        if name == "trap":
            self._trap([word for word in words[1:] if word.text != "--"])
        leaf = self._leaf(self._ends(words), words)
        follows = name.rpartition("/")[2] in FINDERS and self.executed_by < DEEPEST_FIND
        executed = list(executed_by_find(words)) if follows else []
        return Apart(leaf, [self._executed(found) for found in executed], "find") if executed else leaf

    def _trap(self, arguments: Sequence[Text]) -> None:
        if len(arguments) > 1:
            text = arguments[0].text if arguments[0].known else None
            self.run.handler(text, [word.text for word in arguments[1:]], self.scope)

    def _executed(self, words: tuple[Text, ...]) -> Trace:
        """The program that `find` runs for what it finds."""
        statement = dataclasses.replace(self.statement, raw=" ".join(word.text for word in words))
        inner = _Command(statement, self.run, self.scope, None, self.executed_by + 1)
        stripped = strip(_with_unknown(words, "{}"))
        inner.variables = self.variables
        inner.stdin = None
        inner.stripped = dataclasses.replace(stripped, functions=False, bypass=self.stripped.bypass or stripped.bypass)
        return _launched(inner._run(inner.stripped), inner.stripped)

    def _ends(self, words: Sequence[Text]) -> Ends:
        scope, name = self.scope, words[0].text
        if self.statement.declared or name in builtins.DECLARATIONS or name == "unset":
            return builtins.declare(name, self.statement.declared, words[1:], scope)
        if not words[0].known:
            return ANY
        ends = builtins.ends_of(words, scope)
        if ends & Ends.OK and self._redirected(r"(?!/dev/|\d+$)"):
            ends |= Ends.FAIL
        if scope.broken_pipe and name in ("echo", "printf") and not self._redirected(""):
            ends |= Ends.EXIT_FAIL
        return ends

    def _redirected(self, target: str) -> bool:
        """Whether the output goes to a file whose name `target` matches."""
        return any(
            redirect.target is not None and ">" in redirect.operator and re.match(target, redirect.target.source)
            for redirect in self.statement.redirects
        )

    def _call(self, body: Statement | None, arguments: list[str]) -> Trace:
        scope = self.scope
        if body is not None:
            self.run.called(body)
        if body is None or not self.run.may_go_deeper(scope):
            return Choice([self._leaf(ANY, self.stripped.words)], ANY)
        inside = dataclasses.replace(
            scope, positional=tuple(arguments), depth=scope.depth + 1, in_function=True, in_loop=False
        )
        inside.prefixed = scope.prefixed + self.stripped.prefixed
        inside.local = {name: scope.variables.get(name) for name in self.variables}
        inside.variables = {**scope.variables, **self.variables}
        inside.own_path = self._bypass()
        if not all(word.known for word in self.stripped.words):
            inside.positional = None
        trace = self.run.statement(body, inside)
        positional = scope.positional
        scope.adopt(inside)
        scope.positional = positional
        scope.variables.update(inside.local)
        return Mapped(trace, CALL)

    def _shell(self, call: ShellCall) -> Trace | None:
        text = call.text
        if text is None and call.file is None:
            given = self.stdin if self.stdin is not None else self.piped
            text = Text(given) if given is not None else None
        elif call.file is not None:
            text = self._process_output()
        if text is None:
            return None
        text = Text(self._without_substitutions(text.text))
        inside = self.scope.child(self.variables)
        inside.errexit, inside.pipefail = call.errexit, call.pipefail
        inside.positional = tuple(word.text for word in call.arguments) if _known(call.arguments) else None
        return self._nested(text.text, inside, call.head, same=False)

    def _without_substitutions(self, text: str) -> str:
        """A text for another shell, in which a substitution that this shell made does not stand again."""
        redirected = [redirect.text for redirect in self.statement.redirects if redirect.text is not None]
        for word in (*self.statement.words, *redirected):
            for found in (*substitutions(word), *optional_substitutions(word)):
                text = text.replace(found.source, "$_")
        return text

    def _process_output(self) -> Text | None:
        """What a shell reads from `<(...)`, where that is plain."""
        for word in self.statement.words[1:]:
            if word.parts and isinstance(word.parts[0], Substitution) and word.parts[0].process:
                output = output_of(word.parts[0].body, self.scope)
                return Text(output) if output is not None else None
        return None

    def _sourced(self, words: Sequence[Text]) -> str | None:
        if words[1].text == "/dev/stdin":
            return self.stdin if self.stdin is not None else self.piped
        output = self._process_output()
        return output.text if output is not None else None

    def _nested(self, text: str, scope: Scope, head: str, *, same: bool) -> Trace:
        if not self.run.may_go_deeper(scope, text):
            return self._leaf(ANY, self.stripped.words)
        inside = dataclasses.replace(scope, depth=scope.depth + 1)
        inside.prefixed = (*self.scope.prefixed, *self.stripped.prefixed, *([head] if head else []))
        inside.own_path = self._bypass()
        trace = self.run.script(text, inside)
        if same:
            scope.adopt(inside)
            return trace
        return Mapped(trace, SUBSHELL)

    def _bypass(self) -> bool:
        own = any(
            replaces_path(assignment.name, assignment.value.source if assignment.value else "")
            for assignment in self.statement.assignments
        )
        return self.scope.own_path or self.stripped.bypass or own

    def _stdin(self) -> str | None:
        texts = [redirect.text for redirect in self.statement.redirects if redirect.text is not None]
        if not texts:
            return None
        found = text_of_word(texts[-1], self.scope)
        here_string = any(redirect.operator == "<<<" for redirect in self.statement.redirects)
        return found.text + "\n" * here_string

    def _leaf(self, ends: Ends, words: Sequence[Text], more_data: Sequence[str] = ()) -> Leaf:
        texts = tuple(word.text for word in words)
        command = SimpleCommand(
            raw=self.statement.raw,
            words=texts,
            known=tuple(word.known for word in words),
            prefixed=(*self.scope.prefixed, *self.stripped.prefixed),
            ran=Ran.MAYBE,
            succeeded=None,
            data=(*self._data(texts), *more_data),
            stdin=self.stdin,
            bypass=self._bypass() or "/" in texts[0],
            assignments=(*self._assigned(), *self.stripped.variables),
        )
        if self.run.killable and texts[0] not in builtins.INSTANT:
            ends |= Ends.KILLED

        def report(ran: Ran, succeeded: bool | None, why: str, repeated: bool) -> None:
            self.run.report(
                dataclasses.replace(command, ran=ran, succeeded=succeeded, why_unknown=why, repeated=repeated)
            )

        return Leaf(ends, report)

    def _assigned(self) -> Iterator[tuple[str, str]]:
        for assignment in self.statement.assignments:
            value = self.variables[assignment.name]
            written = assignment.value.source if assignment.value is not None else ""
            yield assignment.name, value if isinstance(value, str) else written

    def _data(self, texts: Sequence[str]) -> Iterator[str]:
        yield from data_of(texts)
        if self.stdin is not None:
            yield self.stdin
        for assignment in self.statement.assignments:
            if assignment.value is not None and re.search(r"\s", assignment.value.source):
                yield assignment.value.source
        words = [*self.statement.words]
        for redirect in self.statement.redirects:
            words += [word for word in (redirect.target, redirect.text) if word is not None]
            if redirect.source:
                yield redirect.source
        for word in words:
            yield from (found.source for found in (*substitutions(word), *optional_substitutions(word)))


def _launched(trace: Trace, stripped: Stripped) -> Trace:
    """Return the trace of a command behind launchers whose status does not tell how it ended."""
    if stripped.refused:
        trace = Choice([trace], Ends.FAIL)
    if not stripped.untold:
        return trace
    trace = Mapped(trace, UNTOLD, stripped.untold)
    trace = trace if stripped.once else Repeated(trace)
    return Choice([trace], ANY) if stripped.some else trace


def _with_unknown(words: Sequence[Text], place: str) -> tuple[Text, ...]:
    """Return the words, of which those that hold `place` are not known."""
    return tuple(Text(word.text, word.known and place not in word.text) for word in words)


def _known(words: Sequence[Text]) -> bool:
    return all(word.known for word in words)
