"""Criterion type uipath_eval: an evaluation run by a vendor's tool. Not available yet."""

from __future__ import annotations

from typing import NoReturn

from ..errors import JudgingError
from .contract import Evidence


def check(criterion: object, evidence: Evidence) -> NoReturn:
    """Raise JudgingError: this type needs the uipath tool, which no release of this package runs yet."""
    raise JudgingError("not available: uipath_eval needs the uipath tool, which no release of this package runs yet")
