"""A trial's criteria as a table for the terminal and for the body of a JUnit failure."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ..text import shorten

WORDS = {"pass": "PASS", "fail": "FAIL", "not_evaluated": "----", "error": "ERROR"}
DIAGNOSIS = "evidence after the failure (diagnostic only, counts for nothing)"
REASON_LENGTH = 600
DETAILS_LENGTH = 3000


ADVISORY = "advisory: the run was stopped early"
"""What is said beside a criterion that did not count because others had ended the run."""


def counts(criterion: Mapping[str, Any]) -> bool:
    """Whether the verdict had a part in the trial's status."""
    return bool(criterion["gating"]) and not criterion.get("advisory")


def word(criterion: Mapping[str, Any]) -> str:
    """The verdict as the table shows it; one that does not count says so."""
    return WORDS[criterion["verdict"]] if counts(criterion) else f"({WORDS[criterion['verdict']].lower()})"


def criterion_line(criterion: Mapping[str, Any]) -> str:
    """One line: verdict, score, weight, name."""
    score = "   -" if criterion["score"] is None else f"{criterion['score']:.2f}"
    return f"{word(criterion):<7} {score}  w={criterion['weight']:<4g} {criterion['name']}"


def criteria_table(criteria: Sequence[Mapping[str, Any]], lines: Mapping[int, str] | None = None) -> str:
    """All criteria, each with what went wrong below it. `lines` maps a criterion's index to its place in the task."""
    rows: list[str] = []
    for criterion in criteria:
        place = (lines or {}).get(criterion["index"], "")
        rows.append(f"  {criterion_line(criterion)}  {place}".rstrip())
        if criterion.get("advisory"):
            rows.append(" " * 10 + ADVISORY)
        if criterion["verdict"] != "pass":
            rows.append(_explanation(criterion))
        elif criterion["note"]:
            rows.append(" " * 10 + shorten(criterion["note"], REASON_LENGTH))
    return "\n".join(row for row in rows if row)


def diagnosis_table(criteria: Sequence[Mapping[str, Any]], lines: Mapping[int, str] | None = None) -> str:
    """What was seen after a failure, under a heading of its own. `criteria` are the trial's `post_failure`."""
    reasons = {criterion["reason"] for criterion in criteria if criterion["verdict"] == "not_evaluated"}
    if len(reasons) == 1 and all(criterion["verdict"] == "not_evaluated" for criterion in criteria):
        return f"{DIAGNOSIS}\n  none: {shorten(reasons.pop(), REASON_LENGTH)}"
    return f"{DIAGNOSIS}\n{criteria_table([informing(criterion) for criterion in criteria], lines)}"


def informing(criterion: Mapping[str, Any]) -> dict[str, Any]:
    """A result of a diagnosis as one that takes no part in the gate."""
    return {**criterion, "gating": False}


def _explanation(criterion: Mapping[str, Any]) -> str:
    reason, details = criterion["reason"], criterion["details"]
    parts = [criterion["description"]]
    if reason not in details:
        parts.append(shorten(reason, REASON_LENGTH))
    if criterion["verdict"] in ("fail", "error"):
        parts.append(shorten(details, DETAILS_LENGTH))
    return textwrap.indent("\n".join(part.rstrip() for part in parts if part), " " * 10)
