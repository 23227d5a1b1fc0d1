"""Criterion type file_check: texts and patterns that a file must and must not have."""

from __future__ import annotations

from ..task.file_models import FileCheck
from .contract import Evidence, Judgement
from .parts import Part, excludes_part, includes_part, mean_of_parts, patterns_part
from .reading import fail_when_unreadable, read_text


@fail_when_unreadable
def check(criterion: FileCheck, evidence: Evidence) -> Judgement:
    """Score the mean of up to three ratios: found includes, absent excludes, patterns that are as they should be.

    When nothing is asked of its text, any regular file scores 1.
    """
    name = evidence.workspace.resolve_one(criterion.path)
    if not (criterion.includes or criterion.excludes or criterion.patterns):
        exists = evidence.workspace.is_file(name)
        return Judgement(float(exists), f"{name} exists" if exists else f"{name} is no file")
    text = read_text(evidence.workspace, name)
    parts: list[Part] = []
    if criterion.includes:
        parts.append(includes_part(text, criterion.includes))
    if criterion.excludes:
        parts.append(excludes_part(text, criterion.excludes))
    if criterion.patterns:
        parts.append(patterns_part(text, criterion.patterns))
    return mean_of_parts(name, parts)
