"""Paths on the author's machine that a task names: variables expanded, relative to the task file."""

from __future__ import annotations

import os
import re
from pathlib import Path

from ..errors import Cause, TrialError

_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)


def host_path(text: str, task_dir: Path, key: str) -> Path:
    """The absolute path that `text` names; `$X`, `${X}` and a leading `~` are expanded.

    Raises TrialError(CONFIGURATION) that names `key` and the variable when one is undefined.
    """

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise TrialError(Cause.CONFIGURATION, f"{key}: {text!r} needs the environment variable {name}, not set")
        return os.environ[name]

    expanded = Path(_VARIABLE.sub(value, text)).expanduser()
    return Path(os.path.normpath(task_dir.absolute() / expanded))
