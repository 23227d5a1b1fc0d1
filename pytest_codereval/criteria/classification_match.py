"""Criterion type classification_match: the label that a file holds."""

from __future__ import annotations

from ..sandbox.workspace import Unreadable
from ..task.file_models import ClassificationMatch
from ..text import shorten
from .contract import Evidence, Judgement
from .reading import fail_when_unreadable, read_text

NO_LABEL = "(none)"
"""Label of a file that is missing, empty, or not to be read."""

OTHER_LABEL = "(other)"
"""Label of a file whose text is none of the allowed labels, or no text."""

SHOWN_LENGTH = 100


@fail_when_unreadable
def check(criterion: ClassificationMatch, evidence: Evidence) -> Judgement:
    """Score 1 when the file's text, without surrounding space, is the expected label; else 0. Always gives labels."""
    observed, what = _observed(criterion, evidence)
    expected = criterion.expected()
    return Judgement(
        float(observed == expected),
        f"{what}; expected {expected!r}",
        label=observed,
        expected_label=expected,
    )


def _observed(criterion: ClassificationMatch, evidence: Evidence) -> tuple[str, str]:
    """Return the observed label and a description of what was found."""
    try:
        text = read_text(evidence.workspace, criterion.path).removeprefix("\ufeff").strip()
    except Unreadable as error:
        return (OTHER_LABEL if evidence.workspace.exists(criterion.path) else NO_LABEL), str(error)
    if not text:
        return NO_LABEL, f"{criterion.path}: empty"
    label = criterion.canonical(text)
    if label is None:
        return OTHER_LABEL, f"{criterion.path}: {shorten(text, SHOWN_LENGTH)!r} is none of the allowed labels"
    return label, f"{criterion.path}: label {label!r}"
