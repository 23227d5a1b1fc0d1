"""Where the criteria of a task stand in its file."""

from __future__ import annotations

from .problems import shown_path
from .trials import TrialSpec
from .yaml_reader import ReadError, read


def criterion_places(spec: TrialSpec) -> dict[int, str]:
    """Return `file:line` for the index of each criterion; empty when the text is not at hand."""
    try:
        document = read(spec.text)
    except ReadError:
        return {}
    shown = shown_path(spec.path)
    return {
        index: f"{shown}:{document.position(('success_criteria', index))[0]}"
        for index in range(len(spec.task.success_criteria))
    }
