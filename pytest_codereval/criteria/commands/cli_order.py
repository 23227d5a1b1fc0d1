"""The order of calls: after and before the calls of another criterion, and sequences of patterns."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from ...task.cli_models import CliCalled, CliPattern
from .cli_facets import CallSource, CallTest, Compared, Match, SeenCall


@dataclasses.dataclass(frozen=True)
class Progress:
    """Complete occurrences of a sequence, and those that were begun, the furthest first. No two share a call."""

    complete: tuple[tuple[Compared, ...], ...]
    begun: tuple[tuple[Compared, ...], ...]


class Timeline:
    """All calls in the order in which they were made, and what counts among them.

    Every question has two answers: with `sure`, at least these calls count whatever is still open; without, at most
    these. They differ only where calls are claimed or, during a run, have not ended.
    """

    def __init__(self, seen: Iterable[SeenCall], patterns: Mapping[str, CliCalled], source: CallSource) -> None:
        self.seen = tuple(sorted(seen, key=lambda item: item.earliest))
        self._patterns = patterns
        self._source = source
        self._compared: dict[int, tuple[Compared, ...]] = {}
        self._firsts: dict[tuple[str, bool], float] = {}

    @property
    def recorded(self) -> int:
        """How many calls were recorded."""
        return sum(not item.claimed for item in self.seen)

    def compared(self, facets: CliCalled | CliPattern, tool: str | None) -> tuple[Compared, ...]:
        """Every call beside the facets, without regard to order."""
        if id(facets) not in self._compared:
            test = CallTest(facets, tool, self._source)
            self._compared[id(facets)] = tuple(map(test.compare, self.seen))
        return self._compared[id(facets)]

    def counting(self, criterion: CliCalled, *, sure: bool) -> list[Compared]:
        """The calls that count: those that match, in the order that is asked for; of a sequence its last calls."""
        if criterion.sequence is not None:
            return [run[-1] for run in self.progress(criterion, sure=sure).complete]
        return [item for item in self._matching(criterion, sure) if not self._disorder(criterion, item, sure)]

    def progress(self, criterion: CliCalled, *, sure: bool) -> Progress:
        """How often the sequence of `criterion` was called, each call taken in turn.

        What is sure during a run looks at the calls before the first one of which something is open.
        """
        steps = [self.compared(step, step.tool or criterion.tool) for step in criterion.sequence or ()]
        rows = list(zip(*steps, strict=True))
        if sure and self._source.live:
            rows = list(itertools.takewhile(lambda row: all(item.match is not Match.OPEN for item in row), rows))
        found = _progress(rows, sure)
        if sure or (self.recorded == len(self.seen) and not self._source.live):
            return found
        late = _progress(sorted(rows, key=lambda row: row[0].seen.latest), sure)
        return max(found, late, _progress(rows, True), key=lambda progress: len(progress.complete))

    def wanted(self, criterion: CliCalled) -> tuple[tuple[Compared, ...], tuple[Compared, ...]]:
        """Every call beside what is still to be called, and the calls that made up the sequence so far.

        A call that matches, but not where it stands, does not match and has the order as its difference.
        """
        if criterion.sequence is None:
            items = self.compared(criterion, criterion.tool)
            return tuple(_displaced(item, self._disorder(criterion, item, sure=True)) for item in items), ()
        progress = self.progress(criterion, sure=True)
        used = {item.seen.earliest for run in (*progress.complete, *progress.begun) for item in run}
        done = progress.begun[0] if progress.begun else ()
        step = criterion.sequence[len(done)]
        return tuple(
            _displaced(item, "it is another step" if item.seen.earliest in used else "it came too early")
            for item in self.compared(step, step.tool or criterion.tool)
        ), done

    def _matching(self, criterion: CliCalled, sure: bool) -> list[Compared]:
        return [item for item in self.compared(criterion, criterion.tool) if _counts(item, sure)]

    def _disorder(self, criterion: CliCalled, item: Compared, sure: bool) -> str:
        """Which order the call breaks, or nothing."""
        if criterion.after is not None and not self._first(criterion.after, sure) < item.seen.latest:
            return f"after {criterion.after}: no such call was made before it"
        if criterion.before is not None and not item.seen.earliest < self._first(criterion.before, not sure):
            return f"before {criterion.before}: such a call was made already"
        return ""

    def _first(self, name: str, sure: bool) -> float:
        """The place of the first call that counts for the criterion of that name; infinite when there is none."""
        key = name, sure
        if key not in self._firsts:
            counting = self.counting(self._patterns[name], sure=sure)
            self._firsts[key] = min((item.seen.earliest for item in counting), default=math.inf)
        return self._firsts[key]


def _progress(rows: Sequence[Sequence[Compared]], sure: bool) -> Progress:
    """`rows` are calls in their order, each beside all steps. A call takes the run that got furthest of those that wait
    for it, the oldest of several, or begins one.
    """
    steps = len(rows[0]) if rows else 0
    waiting: list[collections.deque[tuple[Compared, ...]]] = [collections.deque() for _ in range(steps)]
    complete: list[tuple[Compared, ...]] = []
    for row in rows:
        for step in reversed(range(steps)):
            if _counts(row[step], sure) and (step == 0 or waiting[step]):
                run = (*(waiting[step].popleft() if step else ()), row[step])
                if len(run) == steps:
                    complete.append(run)
                else:
                    waiting[len(run)].append(run)
                break
    begun = [run for runs in reversed(waiting) for run in runs]
    return Progress(tuple(complete), tuple(begun))


def _counts(item: Compared, sure: bool) -> bool:
    return item.match is Match.YES or (not sure and item.match is Match.OPEN)


def _displaced(item: Compared, disorder: str) -> Compared:
    return dataclasses.replace(item, match=Match.NO, difference=disorder) if item.match and disorder else item
