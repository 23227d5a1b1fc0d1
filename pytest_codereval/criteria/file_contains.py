"""Criterion type file_contains: texts that a file must and must not contain."""

from __future__ import annotations

from ..task.file_models import FileContains
from .contract import Evidence, Judgement
from .parts import Part, excludes_part, includes_part, mean_of_parts
from .reading import fail_when_unreadable, read_text


@fail_when_unreadable
def check(criterion: FileContains, evidence: Evidence) -> Judgement:
    """Score the mean of two ratios, each only if the author listed texts: found includes and absent excludes."""
    name = evidence.workspace.resolve_one(criterion.path)
    text = read_text(evidence.workspace, name)
    parts: list[Part] = []
    if criterion.includes:
        parts.append(includes_part(text, criterion.includes))
    if criterion.excludes:
        parts.append(excludes_part(text, criterion.excludes))
    return mean_of_parts(name, parts)
