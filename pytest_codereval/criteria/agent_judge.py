"""Criterion type agent_judge: an agent judges the work. Not available yet."""

from __future__ import annotations

from typing import NoReturn

from ..errors import JudgingError
from .contract import Evidence


def check(criterion: object, evidence: Evidence) -> NoReturn:
    """Raise JudgingError: this type needs an agent that judges, which no release of this package runs yet."""
    raise JudgingError(
        "not available: agent_judge needs an agent that judges, which no release of this package runs yet"
    )
