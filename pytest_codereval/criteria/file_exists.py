"""Criterion type file_exists: a file, or a directory, is there."""

from __future__ import annotations

from ..sandbox.workspace import Unreadable, Workspace
from ..task.file_models import FileExists
from .contract import Evidence, Judgement
from .reading import fail_when_unreadable


@fail_when_unreadable
def check(criterion: FileExists, evidence: Evidence) -> Judgement:
    """Score 1 when the path is a file, or its glob pattern matches one; else 0.

    A directory counts only where the path ends in a slash: a directory named `report.md` is no report.
    """
    path, workspace = criterion.path, evidence.workspace
    if path.endswith("/"):
        exists = workspace.is_dir(path)
        return Judgement(float(exists), f"{path} {'exists' if exists else 'is no directory'}")
    if workspace.is_dir(path):
        return Judgement(0.0, f"{path} is a directory; a path that ends in a slash, {path + '/'!r}, accepts one")
    if workspace.exists(path):
        return Judgement(1.0, f"{path} exists")
    return Judgement(0.0, _why_absent(workspace, path))


def _why_absent(workspace: Workspace, path: str) -> str:
    try:
        workspace.resolve_one(path)
    except Unreadable as error:
        return error.reason
    return f"{path} does not exist"
