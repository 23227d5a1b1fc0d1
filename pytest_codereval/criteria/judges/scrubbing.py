"""Takes what the reference says out of all that is kept of a judgement."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

SHORTEST = 8
"""Shorter texts cannot be told from ordinary ones."""

LONG_LINE = 20
"""Single lines of the reference are taken out from this length on."""

SHOWN = "[reference]"


class Scrubber:
    """`texts` are those of the reference, whole and as they were cut for the judge."""

    def __init__(self, texts: Iterable[str]) -> None:
        forms = {written for text in texts for form in _forms(text) for written in _written(form)}
        self._forms = sorted(forms, key=lambda form: (-len(form), form))

    def scrub(self, text: str) -> str:
        """Return `text` without the reference's. Comes before any cut: half of a text could not be told any more."""
        for form in self._forms:
            if form in text:
                text = text.replace(form, SHOWN)
        return text


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
