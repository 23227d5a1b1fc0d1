"""Paths on the author's machine that a task names: variables expanded, relative to the task file."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import Cause, TrialError
from ..task.variables import UndefinedVariable, expand_variables


def host_path(text: str, task_dir: Path, key: str) -> Path:
    """The absolute path that `text` names; `$X`, `${X}` and a leading `~` are expanded.

    Raises TrialError(CONFIGURATION) that names `key` and the variable when one is undefined.
    """
    try:
        expanded = Path(expand_variables(text)).expanduser()
    except UndefinedVariable as error:
        raise TrialError(Cause.CONFIGURATION, f"{key}: {text!r}: {error}") from None
    return Path(os.path.normpath(task_dir.absolute() / expanded))
