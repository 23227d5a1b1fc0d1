"""What a checker returned, held against what it has to return: never a pass by a mistake of the checker."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

from ..criteria.contract import Judgement
from ..errors import JudgingError
from ..text import shorten


def checked_judgement(found: object, criterion: Any) -> Judgement:
    """Return the judgement with its score as a float. Raises JudgingError for everything that is none."""
    checker = f"the checker of {criterion.type}"
    if not isinstance(found, Judgement):
        raise JudgingError(f"{checker} returned {_shown(found)}, expected a Judgement")
    score = found.score
    if isinstance(score, bool) or not isinstance(score, numbers.Real) or not 0 <= score <= 1:
        raise JudgingError(f"{checker} gave the score {_shown(score)}, expected a number from 0 to 1")
    for name in ("reason", "details", "note"):
        if not isinstance(getattr(found, name), str):
            raise JudgingError(f"{checker} gave as {name} {_shown(getattr(found, name))}, expected text")
    if found.judge is not None and not isinstance(found.judge, Mapping):
        raise JudgingError(f"{checker} gave as judge {_shown(found.judge)}, expected a mapping")
    labels = criterion.labels()
    given = {"label": found.label, "expected_label": found.expected_label or criterion.expected()}
    for name, label in given.items():
        if label is not None and not isinstance(label, str):
            raise JudgingError(f"{checker} gave as {name} {_shown(label)}, expected text")
        if label is not None and labels is not None and label not in labels:
            raise JudgingError(f"{checker} gave as {name} {_shown(label)}, which is none of the criterion's labels")
    return dataclasses.replace(found, score=float(score))


def _shown(value: object) -> str:
    try:
        return shorten(repr(value), 100)
    except Exception:
        return f"an object of {type(value).__name__}"
