"""How the directories that calls come from are named, in rules, in criteria and in the log."""

from __future__ import annotations

import os
from pathlib import Path


def seen_from_workspace(cwd: str, workspace: Path | None) -> str:
    """The absolute directory `cwd` relative to the workspace when it lies there, else without `.`, `..` and `//`.

    It lies there as its caller names it, or by its real path. `..` is followed as the system does it: what stands
    before may be a link, and a caller can choose the name. Without a workspace nothing lies there.
    """
    named = os.path.realpath(cwd) if ".." in cwd.split("/") else os.path.normpath(cwd)
    if workspace is not None:
        for path in (Path(named), Path(os.path.realpath(cwd))):
            if path.is_relative_to(workspace):
                return path.relative_to(workspace).as_posix()
    return named
