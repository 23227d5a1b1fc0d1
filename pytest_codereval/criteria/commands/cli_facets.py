"""What a cli_called pattern asks of one call, and which facet of the call differs."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from ...recorder.argv import ArgvPattern, compare, pattern_of
from ...recorder.invocation import Invocation
from ...recorder.options import OptionTable
from ...recorder.texts import text_test
from ...task.cli_models import CliCalled, CliPattern
from ...text import head
from .known_words import may_match

SHOWN_TEXT = 60


class Match(enum.IntEnum):
    """Whether a call is as asked for. `OPEN`: what is known agrees, and something is not known, or not known yet."""

    NO = 0
    OPEN = 1
    YES = 2


@dataclasses.dataclass(frozen=True)
class SeenCall:
    """A call, and between which of the recorded calls it was made.

    A recorded call has its own index as `earliest` and `latest`. Otherwise it is a claim: the transcript alone tells
    of it, `succeeded` is what that says, `shown` is how it is written there, and from the argument `unknown_from` on
    it does not tell the arguments; `repeated` when it may have been made more often.
    """

    call: Invocation
    earliest: float
    latest: float
    claimed: bool = False
    succeeded: bool | None = None
    shown: str = ""
    unknown_from: int | None = None
    repeated: bool = False


@dataclasses.dataclass(frozen=True)
class Compared:
    """A call beside a pattern. `touched` tells whether the pattern's words are those of this call at all; of those
    that do not match, the one with the highest `closeness` is the nearest.
    """

    seen: SeenCall
    match: Match
    difference: str = ""
    closeness: tuple[int, ...] = ()
    touched: bool = False


_Facet = tuple[bool | None, str]
"""Whether it holds, None when that is open, and the difference."""


@dataclasses.dataclass(frozen=True)
class CallSource:
    """What is known of calls: whether the recorder made them known, whether more of them may come to be known, and the
    flags that each tool declares.
    """

    recorded: bool = True
    live: bool = False
    options: Mapping[str, OptionTable] = dataclasses.field(default_factory=dict)


class CallTest:
    """A pattern, ready to be held against many calls. `tool` None accepts every tool."""

    def __init__(self, facets: CliCalled | CliPattern, tool: str | None, source: CallSource) -> None:
        self._facets = facets
        self._tool = tool
        self._source = source
        self._patterns: dict[OptionTable, ArgvPattern] = {}
        self._circumstances = tuple(self._tests())
        self._verb_asked = bool(facets.verbs)
        self._argv_asked = self._verb_asked or bool(facets.positional or facets.flags)

    def compare(self, seen: SeenCall) -> Compared:
        """Hold one call against the pattern: tool, verb, positional, flags, then exit_code, stdin and cwd."""
        call = seen.call
        if self._tool is not None and call.tool != self._tool:
            got = repr(call.tool) if call.tool else "no name"
            return Compared(seen, Match.NO, f"tool: expected {self._tool!r}, got {got}", (-2, 0, 0, 0))
        pattern = self._pattern(call.tool)
        argv = compare(pattern, call.argv)
        agrees = argv.matched or (seen.unknown_from is not None and may_match(pattern, call.argv[: seen.unknown_from]))
        others = [test(seen) for test in self._circumstances]
        unmet = [difference for holds, difference in others if holds is False]
        touched = argv.touched or not (self._argv_asked or others)
        if not self._verb_asked:
            touched = touched or any(holds for holds, _ in others)
        closeness = (*argv.closeness, -len(unmet))
        if not agrees or unmet:
            return Compared(seen, Match.NO, argv.difference or unmet[0], closeness, touched)
        is_open = seen.claimed or any(holds is None for holds, _ in others)
        return Compared(seen, Match.OPEN if is_open else Match.YES, "", closeness, touched)

    def _pattern(self, tool: str) -> ArgvPattern:
        options = self._source.options.get(tool, ())
        if options not in self._patterns:
            self._patterns[options] = pattern_of(self._facets, options)
        return self._patterns[options]

    def _tests(self) -> Iterator[Callable[[SeenCall], _Facet]]:
        facets = self._facets
        if facets.exit_code is not None:
            yield self._exit_code(facets.exit_code)
        if facets.stdin is not None:
            yield self._stdin(facets.stdin)
        if facets.cwd is not None:
            yield self._cwd(facets.cwd)

    def _exit_code(self, wanted: tuple[int, ...]) -> Callable[[SeenCall], _Facet]:
        expected = f"exit_code: expected {' or '.join(map(str, wanted))}"

        def test(seen: SeenCall) -> _Facet:
            status = seen.call.exit_status
            if status is not None:
                return status in wanted, f"{expected}, got {status}"
            if seen.claimed and seen.succeeded is not None:
                possible = 0 in wanted if seen.succeeded else any(wanted)
                return None if possible else False, f"{expected}, got {'success' if seen.succeeded else 'a failure'}"
            if not self._source.recorded:
                return False, f"{expected}, but the log does not tell it"
            return self._open(seen), f"{expected}, but it is unknown: the call was killed before it ended"

        return test

    def _stdin(self, predicate: object) -> Callable[[SeenCall], _Facet]:
        wanted = text_test(predicate, limit=None)

        def test(seen: SeenCall) -> _Facet:
            text = seen.call.stdin
            if not self._source.recorded:
                return False, f"stdin {wanted}: the log does not tell it"
            if text is None and self._open(seen) is None:
                return None, ""
            got = "it was not read" if text is None else "it was empty" if not text else f"got {_shown(text)}"
            return wanted.holds(text or None), f"stdin {wanted}: {got}"

        return test

    def _cwd(self, predicate: object) -> Callable[[SeenCall], _Facet]:
        wanted = text_test(predicate, limit=None)

        def test(seen: SeenCall) -> _Facet:
            if seen.call.cwd:
                return wanted.holds(seen.call.cwd), f"cwd {wanted}: got {_shown(seen.call.cwd)}"
            return None if seen.claimed else False, f"cwd {wanted}: it is not known"

        return test

    def _open(self, seen: SeenCall) -> Literal[False] | None:
        """None when what is not known of the call may still be anything."""
        return None if seen.claimed or (self._source.live and seen.call.ended is None) else False


def _shown(text: str) -> str:
    return repr(text) if len(text) <= SHOWN_TEXT else f"{head(text, SHOWN_TEXT)!r}..."
