"""Takes what the reference says out of all that is kept of a judgement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

SHORTEST = 8
"""Shorter texts cannot be told from ordinary ones."""

LONG_LINE = 20
"""Single lines of the reference are taken out from this length on."""

SHOWN = "[reference]"


_PREFIXES = (16, SHORTEST)
"""Characters by which the beginning of a text of the reference is looked up: the most that it has of these."""


class Scrubber:
    """`texts` are those of the reference, whole and as they were cut for the judge.

    The time it takes grows with the text that is looked at, hardly with the reference.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._forms = {written for text in set(texts) for form in _forms(text) for written in _written(form)}
        self._lengths: dict[int, dict[str, set[int]]] = {size: {} for size in _PREFIXES}
        for form in self._forms:
            size = next(size for size in _PREFIXES if len(form) >= size)
            self._lengths[size].setdefault(form[:size], set()).add(len(form))

    def scrub(self, text: str) -> str:
        """Return `text` without the reference's. Comes before any cut: half of a text could not be told any more."""
        kept: list[str] = []
        end = 0
        for begin, behind in self._found(text):
            if begin >= end:
                kept += [text[end:begin], SHOWN]
            end = max(end, behind)
        return "".join([*kept, text[end:]])

    def _found(self, text: str) -> Iterator[tuple[int, int]]:
        """Where a text of the reference stands, the longest one at each place, in order; they may overlap."""
        tables = [(size, table) for size, table in self._lengths.items() if table]
        for begin in range(len(text) - SHORTEST + 1) if tables else ():
            lengths = {n for size, table in tables for n in table.get(text[begin : begin + size], ())}
            for length in sorted(lengths, reverse=True):
                if text[begin : begin + length] in self._forms:
                    yield begin, begin + length
                    break


def _written(form: str) -> Iterator[str]:
    """As it is, and as it stands in JSON, also in JSON within JSON: tool calls and verdicts are kept so."""
    yield form
    if form.isascii() and form.isprintable() and not set(form) & {'"', "\\"}:
        return
    once = {json.dumps(form, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)}
    yield from once
    yield from (json.dumps(each, ensure_ascii=ascii_only)[1:-1] for each in once for ascii_only in (True, False))


def _forms(text: str) -> Iterator[str]:
    whole = text.strip()
    if len(whole) >= SHORTEST:
        yield whole
    for line in map(str.strip, text.splitlines()):
        if len(line) >= LONG_LINE:
            yield line
