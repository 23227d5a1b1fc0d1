"""The verdict of a judge: the tool that it must call, and what of a call counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from ...errors import JudgingError
from ...text import clean

TOOL = "submit_verdict"

SUBMIT: Mapping[str, Any] = MappingProxyType(
    {
        "name": TOOL,
        "description": "Submit your verdict. Call this exactly once, with your reasoning first and then the score that "
        "follows from it.",
        "input_schema": {
            "type": "object",
            "properties": {
                "rationale": {
                    "type": "string",
                    "description": "Your reasoning: what was asked, what you see in the material, what follows. Write "
                    "it before you decide on a score.",
                },
                "findings": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The single observations that the score rests on, one sentence each.",
                },
                "score": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": 1,
                    "description": "From 0 (nothing of what is asked) to 1 (all of it), as your reasoning says.",
                },
            },
            "required": ["rationale", "findings", "score"],
        },
    }
)
"""The reasoning stands before the score, so that a model that writes in order thinks before it decides."""


@dataclasses.dataclass(frozen=True)
class Opinion:
    """One verdict. The score lies in 0..1."""

    score: float
    rationale: str
    findings: tuple[str, ...] = ()


def opinion_of(submitted: Mapping[str, Any]) -> Opinion:
    """What was submitted. Raises JudgingError when it is out of shape: a score of 7 may be one of 10 or of 100."""
    rationale = submitted.get("rationale")
    if not isinstance(rationale, str) or not rationale.strip():
        raise JudgingError("the judge's verdict is out of shape: it has no rationale")
    score = _score(submitted.get("score"))
    return Opinion(score, clean(rationale).strip(), _findings(submitted.get("findings")))


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        shown = repr(value) if value is None or isinstance(value, bool) else f"({type(value).__name__})"
        raise JudgingError(f"the judge's verdict is out of shape: its score {shown} is no number")
    if not 0 <= value <= 1:
        raise JudgingError(f"the judge's verdict is out of shape: its score {str(value)[:80]} does not lie in 0 to 1")
    return float(value)


def _findings(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise JudgingError("the judge's verdict is out of shape: its findings are no list of texts")
    return tuple(clean(item).strip() for item in items if item.strip())


def submitted_in(content: Iterable[Mapping[str, Any]]) -> Opinion:
    """The verdict in the blocks of a reply: exactly one call of the tool. Raises JudgingError."""
    calls = [block for block in content if block.get("type") == "tool_use"]
    if len(calls) != 1 or calls[0].get("name") != TOOL:
        said = f"{len(calls)} calls of tools" if calls else "no call"
        raise JudgingError(f"the judge did not submit one verdict: its reply has {said}")
    return opinion_of(calls[0]["input"])
