"""Criterion type llm_judge: a model judges the work. Not available yet."""

from __future__ import annotations

from typing import NoReturn

from ..errors import JudgingError
from .contract import Evidence


def check(criterion: object, evidence: Evidence) -> NoReturn:
    """Raise JudgingError: this type needs a model, which no release of this package calls yet."""
    raise JudgingError("not available: llm_judge needs a model, which no release of this package calls yet")
