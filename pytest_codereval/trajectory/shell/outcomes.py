"""How statements end, and what the status of the whole says about each of them.

Going forward each statement gets the set of ways in which it can end. Going backward that set is cut to the ways that
agree with the status of the whole, which also tells which statements were reached.
"""

from __future__ import annotations

import abc
import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping, Sequence

from .program import Ran


class Ends(enum.IntFlag):
    """Ways in which a statement can end; a value is a set of them."""

    NONE = 0
    OK = 1
    FAIL = 2
    EXIT_OK = 4
    EXIT_FAIL = 8
    RETURN_OK = 16
    RETURN_FAIL = 32
    BREAK = 64
    CONTINUE = 128
    BREAK_OUTER = 256
    CONTINUE_OUTER = 512
    KILLED = 1024
    """The shell was killed while the statement ran."""


ANY = Ends.OK | Ends.FAIL
JUMPS = Ends.BREAK | Ends.CONTINUE | Ends.BREAK_OUTER | Ends.CONTINUE_OUTER
SUCCESS = Ends.OK | Ends.EXIT_OK | Ends.RETURN_OK | JUMPS
FAILURE = Ends.FAIL | Ends.EXIT_FAIL | Ends.RETURN_FAIL | Ends.KILLED

Table = Mapping[Ends, Ends]
"""What each single end becomes; those that are missing stay."""

NEGATE: Table = {Ends.OK: Ends.FAIL, Ends.FAIL: Ends.OK}
ERREXIT: Table = {Ends.FAIL: Ends.EXIT_FAIL}
MAYBE_ERREXIT: Table = {Ends.FAIL: Ends.FAIL | Ends.EXIT_FAIL}
SUBSHELL: Table = {
    Ends.EXIT_OK: Ends.OK,
    Ends.EXIT_FAIL: Ends.FAIL,
    Ends.RETURN_OK: Ends.OK,
    Ends.RETURN_FAIL: Ends.FAIL,
    Ends.BREAK: Ends.OK,
    Ends.CONTINUE: Ends.OK,
    Ends.BREAK_OUTER: Ends.OK,
    Ends.CONTINUE_OUTER: Ends.OK,
}
IGNORED: Table = {end: Ends.OK for end in Ends if end is not Ends.KILLED}
UNTOLD: Table = {end: ANY for end in Ends if end is not Ends.KILLED}
CALL: Table = {Ends.RETURN_OK: Ends.OK, Ends.RETURN_FAIL: Ends.FAIL}
EXITS: Table = {Ends.OK: Ends.EXIT_OK, Ends.FAIL: Ends.EXIT_FAIL}
RETURNS: Table = {Ends.OK: Ends.RETURN_OK, Ends.FAIL: Ends.RETURN_FAIL}
ROUND: Table = {Ends.CONTINUE: Ends.OK}
LOOP: Table = {Ends.BREAK: Ends.OK, Ends.BREAK_OUTER: Ends.BREAK, Ends.CONTINUE_OUTER: Ends.CONTINUE}


def single(ends: Ends) -> Iterator[Ends]:
    """Yield each end of a set."""
    return (end for end in Ends if end & ends)


def mapped(ends: Ends, table: Table) -> Ends:
    """Return the set that `ends` become by `table`."""
    result = Ends.NONE
    for end in single(ends):
        result |= table.get(end, end)
    return result


def unmapped(ends: Ends, table: Table, allowed: Ends) -> Ends:
    """Return those of `ends` that can become one of `allowed`."""
    result = Ends.NONE
    for end in single(ends):
        if table.get(end, end) & allowed:
            result |= end
    return result


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a statement: how it can have ended, whether it was reached, and why its end is unknown.

    `repeated` when this is the last round of a loop of unknown length, so that earlier rounds may differ; `unsure` when
    nothing may be concluded from the status, `torn` when nothing may be from the text either, as parts of it miss.
    """

    allowed: Ends
    ran: Ran
    why: str
    repeated: bool = False
    unsure: bool = False
    torn: bool = False

    def of(self, ends: Ends, *, why: str = "") -> Verdict:
        """Return the same with other ends and, where given, another reason."""
        why = self.why if self.unsure else why or self.why
        return Verdict(ends, self.ran, why, self.repeated, self.unsure, self.torn)

    def perhaps(self, ends: Ends) -> Verdict:
        """Return the same for a statement that may have been passed over."""
        return dataclasses.replace(self, allowed=ends, ran=Ran.NO if self.ran is Ran.NO else Ran.MAYBE)

    def never(self, ends: Ends, *, possible: bool = False) -> Verdict:
        """Return the same for a statement that was not reached, but `possible` in other rounds."""
        if self.torn:
            return self.perhaps(ends)
        return dataclasses.replace(self, allowed=ends, ran=Ran.NO, repeated=self.repeated and possible)

    def given(self, first: Ends, when: Ends, ends: Ends, before: Ends) -> Verdict:
        """Return the same for a statement that is reached if one before it ended as `when`.

        `first` are the ends that this one had as far as is known, `before` those that it could have.
        """
        if not first & when:
            return self.never(ends, possible=bool(before & when))
        return self.of(ends) if not first & ~when else self.perhaps(ends)

    def round(self) -> Verdict:
        """Return the same for the last round of a loop of unknown length."""
        return dataclasses.replace(self, repeated=True)


class Trace(abc.ABC):
    """A statement as it would run. `ends` are the ways in which it can end."""

    __slots__ = ("ends",)

    def __init__(self, ends: Ends) -> None:
        self.ends = ends

    def judge(self, verdict: Verdict) -> None:
        """Hand what is known of this statement down to its parts. `verdict.allowed` may hold ends that it cannot have;
        where it holds no other, what is known does not fit the text, and nothing is concluded.
        """
        allowed = verdict.allowed & self.ends
        if not allowed:
            verdict = dataclasses.replace(verdict.perhaps(self.ends), why="the status does not fit", unsure=True)
            allowed = self.ends
        self._judge(verdict.of(allowed))

    @abc.abstractmethod
    def _judge(self, verdict: Verdict) -> None:
        """Hand down a verdict that fits this statement."""


class Fixed(Trace):
    """A statement without a command."""

    __slots__ = ()

    def _judge(self, verdict: Verdict) -> None:
        return


class Leaf(Trace):
    """A simple command. `report` is told whether it ran, whether it succeeded, why that is unknown, and whether it may
    stand for several runs.
    """

    __slots__ = ("_report",)

    def __init__(self, ends: Ends, report: Callable[[Ran, bool | None, str, bool], None]) -> None:
        super().__init__(ends)
        self._report = report

    def _judge(self, verdict: Verdict) -> None:
        succeeded: bool | None = None
        why = verdict.why
        if verdict.ran is Ran.NO:
            why = "not run"
        elif not verdict.unsure and (verdict.allowed & SUCCESS == Ends.NONE or verdict.allowed & FAILURE == Ends.NONE):
            succeeded, why = bool(verdict.allowed & SUCCESS), ""
        one_of_many = verdict.ran is not Ran.MAYBE or succeeded is not None
        self._report(verdict.ran, succeeded, why, verdict.repeated and not one_of_many)
        if verdict.repeated and one_of_many:
            self._report(Ran.MAYBE, None, "loop", True)


class Series(Trace):
    """Statements after each other: the next is reached when one ends as OK or FAIL."""

    __slots__ = ("_after", "_parts")

    def __init__(self, parts: Sequence[Trace]) -> None:
        self._parts = parts
        after = [Ends.OK if not parts else parts[-1].ends]
        for part in reversed(parts[:-1]):
            leaving = part.ends & ~ANY
            after.append(leaving | after[-1] if part.ends & ANY else leaving)
        self._after = after[::-1]
        super().__init__(self._after[0])

    def _judge(self, verdict: Verdict) -> None:
        for index, part in enumerate(self._parts):
            if index + 1 == len(self._parts):
                part.judge(verdict)
                return
            rest = self._after[index + 1] & verdict.allowed
            first = part.ends & ~ANY & verdict.allowed
            if rest:
                first |= part.ends & ANY
            part.judge(verdict.of(first, why=";"))
            verdict = verdict.given(first, ANY, rest, part.ends)


class Chain(Trace):
    """`a && b || c`: each next is reached when what stands before it ended as `whens` says."""

    __slots__ = ("_parts", "_prefixes", "_whens")

    def __init__(self, parts: Sequence[Trace], whens: Sequence[Ends]) -> None:
        self._parts = parts
        self._whens = whens
        prefixes = [parts[0].ends]
        for part, when in zip(parts[1:], whens, strict=True):
            before = prefixes[-1]
            prefixes.append((before & ~when) | (part.ends if before & when else Ends.NONE))
        self._prefixes = prefixes
        super().__init__(prefixes[-1])

    def _judge(self, verdict: Verdict) -> None:
        known = not (verdict.allowed & SUCCESS and verdict.allowed & FAILURE)
        verdicts: list[Verdict] = []
        for index in range(len(self._whens), 0, -1):
            when, part, before = self._whens[index - 1], self._parts[index], self._prefixes[index - 1]
            second = part.ends & verdict.allowed
            first = before & ~when & verdict.allowed
            if second:
                first |= before & when
            operator = "&&" if when is Ends.OK else "||"
            verdicts.append(verdict.given(first, when, second, before))
            verdict = verdict.of(first, why=operator if known else "")
        self._parts[0].judge(verdict)
        for part, found in zip(self._parts[1:], reversed(verdicts), strict=True):
            part.judge(found)


class Branch(Trace):
    """`if`: one of two statements, by the end of a first."""

    __slots__ = ("_condition", "_otherwise", "_then")

    def __init__(self, condition: Trace, then: Trace, otherwise: Trace) -> None:
        self._condition, self._then, self._otherwise = condition, then, otherwise
        ends = condition.ends & ~ANY
        ends |= then.ends if condition.ends & Ends.OK else Ends.NONE
        ends |= otherwise.ends if condition.ends & Ends.FAIL else Ends.NONE
        super().__init__(ends)

    def _judge(self, verdict: Verdict) -> None:
        then, otherwise = self._then.ends & verdict.allowed, self._otherwise.ends & verdict.allowed
        first = self._condition.ends & ~ANY & verdict.allowed
        first |= self._condition.ends & Ends.OK if then else Ends.NONE
        first |= self._condition.ends & Ends.FAIL if otherwise else Ends.NONE
        self._condition.judge(verdict.of(first, why="if"))
        self._then.judge(verdict.given(first, Ends.OK, then, self._condition.ends))
        self._otherwise.judge(verdict.given(first, Ends.FAIL, otherwise, self._condition.ends))


class Mapped(Trace):
    """A statement whose ends become others, as in a subshell. `why` is a reason why its end may be lost."""

    __slots__ = ("_inner", "_table", "_why")

    def __init__(self, inner: Trace, table: Table, why: str = "") -> None:
        self._inner, self._table, self._why = inner, table, why
        super().__init__(mapped(inner.ends, table))

    def _judge(self, verdict: Verdict) -> None:
        self._inner.judge(verdict.of(unmapped(self._inner.ends, self._table, verdict.allowed), why=self._why))


class Choice(Trace):
    """One of several statements, or none of them, with the ends `otherwise`; none when that is empty is impossible."""

    __slots__ = ("_options", "_otherwise")

    def __init__(self, options: Sequence[Trace], otherwise: Ends) -> None:
        self._options, self._otherwise = options, otherwise
        ends = otherwise
        for option in options:
            ends |= option.ends
        super().__init__(ends)

    def _judge(self, verdict: Verdict) -> None:
        possible = [bool(option.ends & verdict.allowed) for option in self._options]
        certain = sum(possible) == 1 and not self._otherwise & verdict.allowed
        for option, can in zip(self._options, possible, strict=True):
            ends = option.ends & verdict.allowed
            if not can:
                option.judge(verdict.never(option.ends, possible=True))
            else:
                option.judge(verdict.of(ends) if certain else verdict.perhaps(ends))


class Repeated(Trace):
    """The last round of a loop of unknown length that runs at least once."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Trace) -> None:
        self._inner = inner
        super().__init__(inner.ends)

    def _judge(self, verdict: Verdict) -> None:
        self._inner.judge(verdict.round())


class Apart(Trace):
    """A command, and statements that it runs any number of times, as `find -exec` does; its end tells nothing of
    theirs. `why` is the reason that they are given.
    """

    __slots__ = ("_command", "_inner", "_why")

    def __init__(self, command: Trace, inner: Sequence[Trace], why: str) -> None:
        self._command, self._inner, self._why = command, inner, why
        super().__init__(command.ends)

    def _judge(self, verdict: Verdict) -> None:
        self._command.judge(verdict)
        repeated = verdict.repeated or verdict.ran is not Ran.NO
        for part in self._inner:
            apart = dataclasses.replace(verdict.perhaps(part.ends), why=self._why, repeated=repeated, unsure=True)
            part.judge(apart)


class Skipped(Trace):
    """A statement that is not reached, with the ends of nothing."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Trace, ends: Ends = Ends.OK) -> None:
        self._inner = inner
        super().__init__(ends)

    def _judge(self, verdict: Verdict) -> None:
        self._inner.judge(verdict.never(self._inner.ends))


class Pipe(Trace):
    """A pipeline. `pipefail` is None when it is not known whether it is on."""

    __slots__ = ("_failing", "_killable", "_parts", "_pipefail")

    def __init__(self, parts: Sequence[Trace], pipefail: bool | None) -> None:
        self._parts, self._pipefail = parts, pipefail
        self._failing = sum(bool(part.ends & Ends.FAIL) for part in parts)
        self._killable = any(part.ends & Ends.KILLED for part in parts)
        ends = parts[-1].ends
        if pipefail is not False:
            strict = Ends.OK if all(part.ends & Ends.OK for part in parts) else Ends.NONE
            strict |= Ends.FAIL if self._failing else Ends.NONE
            ends = strict if pipefail else strict | ends
        super().__init__(ends | (Ends.KILLED if self._killable else Ends.NONE))

    def _judge(self, verdict: Verdict) -> None:
        for index, part in enumerate(self._parts):
            last = index + 1 == len(self._parts)
            why = "" if last and self._pipefail is False else "pipe"
            part.judge(verdict.of(self._allowed(part, last, verdict.allowed), why=why))

    def _allowed(self, part: Trace, last: bool, allowed: Ends) -> Ends:
        ends = part.ends
        if self._pipefail is None or (self._killable and allowed & Ends.KILLED):
            return ends
        if not self._pipefail:
            return ends & allowed if last else ends & ANY
        if not allowed & Ends.FAIL:
            return ends & Ends.OK
        alone = self._failing == 1 and bool(ends & Ends.FAIL)
        return ends & Ends.FAIL if alone and not allowed & Ends.OK else ends & ANY


class Loop(Trace):
    """`while`, by the last time that its condition and its body ran. The body runs after the end `goes_on`."""

    __slots__ = ("_body", "_condition", "_goes_on")

    def __init__(self, condition: Trace, body: Trace, goes_on: Ends) -> None:
        self._condition, self._body, self._goes_on = condition, body, goes_on
        stops = ANY & ~goes_on
        ends = (condition.ends | (body.ends if condition.ends & goes_on else Ends.NONE)) & ~ANY
        if condition.ends & stops:
            ends |= Ends.OK | (body.ends & ANY if condition.ends & goes_on else Ends.NONE)
        super().__init__(ends)

    def _judge(self, verdict: Verdict) -> None:
        verdict = verdict.round()
        stops = ANY & ~self._goes_on
        leaving = verdict.allowed & ~ANY
        can = bool(self._condition.ends & self._goes_on)
        first = self._condition.ends & leaving
        normal = bool(verdict.allowed & ANY)
        first |= self._condition.ends & stops if normal else Ends.NONE
        left = self._body.ends & leaving if can else Ends.NONE
        first |= self._goes_on if left else Ends.NONE
        self._condition.judge(verdict.of(first or self._condition.ends, why="while"))
        body = self._body.ends & verdict.allowed
        if not can or not body:
            self._body.judge(verdict.never(self._body.ends, possible=can))
        elif not self._condition.ends & stops or not verdict.allowed & (Ends.OK | (self._condition.ends & ~ANY)):
            self._body.judge(verdict.of(body, why="while"))
        else:
            self._body.judge(verdict.perhaps(body).of(body, why="while"))


class Carried(Trace):
    """A statement whose end a last one hands on, as in `command; exit $?` and `command; rc=$?; others; exit $rc`."""

    __slots__ = ("_between", "_first", "_last", "_table")

    def __init__(self, first: Trace, between: Trace, last: Trace, table: Table) -> None:
        self._first, self._between, self._last, self._table = first, between, last, table
        ends = first.ends & ~ANY
        if first.ends & ANY:
            ends |= between.ends & ~ANY
            ends |= mapped(first.ends & ANY, table) if between.ends & ANY else Ends.NONE
        super().__init__(ends)

    def _judge(self, verdict: Verdict) -> None:
        allowed = verdict.allowed
        leaving = self._between.ends & ~ANY & allowed
        carried = unmapped(self._first.ends & ANY, self._table, allowed) if self._between.ends & ANY else Ends.NONE
        first = self._first.ends & ~ANY & allowed
        first |= self._first.ends & ANY if leaving else carried
        self._first.judge(verdict.of(first, why=";"))
        verdict = verdict.given(
            first, ANY, leaving | (self._between.ends & ANY if carried else Ends.NONE), self._first.ends
        )
        between = verdict.allowed
        self._between.judge(verdict.of(between, why=";"))
        self._last.judge(verdict.given(between, ANY, mapped(carried, self._table), self._between.ends))


class Unsure(Trace):
    """Statements of a text that was not understood as a whole: nothing is known of any."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Trace) -> None:
        self._inner = inner
        super().__init__(ANY | inner.ends)

    def _judge(self, verdict: Verdict) -> None:
        torn = dataclasses.replace(verdict.perhaps(self._inner.ends), why="not understood", unsure=True, torn=True)
        self._inner.judge(torn)
