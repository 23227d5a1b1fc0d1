"""Criterion type reference_comparison: how alike a Python file is to one of the reference."""

from __future__ import annotations

from ..errors import JudgingError
from ..sandbox.workspace import Unreadable
from ..task.file_models import ReferenceComparison
from .code_similarity import NotPython, require_python, similarity
from .contract import Evidence, Judgement
from .reading import fail_when_unreadable, read_text


@fail_when_unreadable
def check(criterion: ReferenceComparison, evidence: Evidence) -> Judgement:
    """Score the similarity by the criterion's method. A copy scores 1 by every method, whatever it holds.

    Raises JudgingError when the reference is missing, empty, or no Python where a comparison needs it.
    """
    reference = _reference_text(criterion, evidence)
    name = evidence.workspace.resolve_one(criterion.agent_file)
    text = read_text(evidence.workspace, name)
    if text == reference:
        return Judgement(1.0, f"{name} is the same as the reference")
    try:
        require_python(reference)
    except NotPython as error:
        raise JudgingError(f"the reference {criterion.reference_file} is not Python: {error}") from None
    try:
        score = similarity(criterion.comparison_method, text, reference)
    except NotPython as error:
        return Judgement(0.0, f"{name} is not Python: {error}")
    return Judgement(score, f"{name}: similarity {score:.3f} by {criterion.comparison_method}")


def _reference_text(criterion: ReferenceComparison, evidence: Evidence) -> str:
    if evidence.reference is None:
        raise JudgingError("the task has no reference")
    try:
        text = read_text(evidence.reference, criterion.reference_file)
    except Unreadable as error:
        raise JudgingError(f"the reference cannot be read: {error}") from None
    if not text.strip():
        raise JudgingError(f"the reference {criterion.reference_file} is empty")
    return text
