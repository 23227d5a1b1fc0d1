"""Criterion type system_one_judge: a judge with typed questions. Not available yet."""

from __future__ import annotations

from typing import NoReturn

from ..errors import JudgingError
from .contract import Evidence


def check(criterion: object, evidence: Evidence) -> NoReturn:
    """Raise JudgingError: this type needs a judge service, which no release of this package calls yet."""
    raise JudgingError(
        "not available: system_one_judge needs a judge service, which no release of this package calls yet"
    )
