"""Parts of the format that load and that nothing carries out yet: a trial that needs one is an error, no result."""

from __future__ import annotations

from ..errors import Cause, TrialError
from .models import Task


def refuse_unavailable(task: Task) -> None:
    """Raise TrialError(CONFIGURATION) when leaving a part of the task undone could change what its result means."""
    found = []
    if any(criterion.suite_thresholds for criterion in task.success_criteria):
        found.append("success_criteria[].suite_thresholds")
    if found:
        raise TrialError(Cause.CONFIGURATION, f"not available yet: {', '.join(found)}")
