"""What this package says to a vector, and whether that is what the vector expects."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

Vector = Mapping[str, Any]
"""One line of a file of vectors."""

SCORE_TOLERANCE = 1e-9

How = Literal["answered", "refused", "unjudged", "raised", "incomplete"]
"""Answered; refused at load; judged as an error; a checker that raised; or a vector that does not tell its input."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What this package says: its answer as the vector's `expected` spells it, or why there is none."""

    how: How
    answer: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reason: str = ""

    def __str__(self) -> str:
        text = json.dumps(self.answer, default=str) if self.how == "answered" else self.how
        return f"{text} ({self.reason})" if self.reason else text


def agrees(vector: Vector, outcome: Outcome) -> bool:
    """Tell whether the outcome is what the vector expects.

    `error` beside a score is not compared: a score of 0 with a reason is one verdict here, whatever caused it. Of
    `accepted` only the answer is compared, of a raised exception only that there was no verdict.
    """
    expected = vector["expected"]
    if "raises" in expected:
        return outcome.how in ("unjudged", "raised")
    if "accepted" in expected:
        return (outcome.how == "answered") is expected["accepted"]
    if outcome.how != "answered":
        return False
    compared = {key: value for key, value in expected.items() if key != "error"}
    return bool(compared) and all(_same(value, outcome.answer.get(key)) for key, value in compared.items())


def _same(expected: object, found: object) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return abs(expected - found) <= SCORE_TOLERANCE
    return expected == found
