"""Criterion type file_matches_regex: a pattern that a file's text must, or must not, match somewhere."""

from __future__ import annotations

from ..task.file_models import FileMatchesRegex
from .contract import Evidence, Judgement
from .patterns import search
from .reading import fail_when_unreadable, read_text


@fail_when_unreadable
def check(criterion: FileMatchesRegex, evidence: Evidence) -> Judgement:
    """Score 1 when the search in the whole text ends as `must_match` says, else 0; a missing file always fails."""
    name = evidence.workspace.resolve_one(criterion.path)
    text = read_text(evidence.workspace, name)
    match = search(criterion.pattern, text, criterion.flags)
    score = float((match is not None) == criterion.must_match)
    if match is None:
        return Judgement(score, f"{name} does not match {criterion.pattern!r}")
    line = text.count("\n", 0, match.start()) + 1
    unwanted = "" if criterion.must_match else ", which it must not"
    return Judgement(score, f"{name} matches {criterion.pattern!r} in line {line}{unwanted}")
