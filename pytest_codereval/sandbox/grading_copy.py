"""Puts a sanitised copy of the sealed workspace in its place, for graders to work on."""

from __future__ import annotations

from pathlib import Path

from .snapshot import Limits, Manifest, snapshot

GRADING_LIMITS = Limits(file_bytes=4 << 30, total_bytes=16 << 30, entries=1_000_000, depth=200)
"""How much of a workspace is graded; what is above counts as absent."""


def make_grading_copy(workspace: Path, sealed: Path) -> Manifest:
    """Move the workspace to `sealed` and put a sanitised copy in its place. Raises OSError."""
    workspace.rename(sealed)
    return snapshot(sealed, workspace, GRADING_LIMITS)
