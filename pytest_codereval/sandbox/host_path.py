"""Paths on the harness's machine: those that a task names, and whether one lies in another."""

from __future__ import annotations

from pathlib import Path

from ..errors import Cause, TrialError
from ..task.variables import UndefinedVariable
from ..task.variables import host_path as expanded_path


def host_path(text: str, task_dir: Path, key: str) -> Path:
    """The absolute path that `text` names; `$X`, `${X}` and a leading `~` are expanded.

    Raises TrialError(CONFIGURATION) that names `key` and the variable when one is undefined.
    """
    try:
        return expanded_path(text, task_dir)
    except UndefinedVariable as error:
        raise TrialError(Cause.CONFIGURATION, f"{key}: {text!r}: {error}") from None


def lies_in(path: str, folder: str) -> bool:
    """Whether a normalised absolute path is this folder or lies in it, going by the text."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
