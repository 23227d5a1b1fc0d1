"""Environment variables in the paths that a task names on its author's machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


class UndefinedVariable(Exception):
    """A variable that is not set; `name` is its name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"the environment variable {name} is not set")
        self.name = name


def expand_variables(text: str) -> str:
    """Return `text` with `$X` and `${X}` replaced. Raises UndefinedVariable."""

    def value(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        if name not in os.environ:
            raise UndefinedVariable(name)
        return os.environ[name]

    return _VARIABLE.sub(value, text)


def host_path(text: str, folder: Path) -> Path:
    """The absolute path that `text` names, relative to `folder`, with variables and a leading `~` expanded.

    Raises UndefinedVariable.
    """
    return Path(os.path.normpath(folder.absolute() / Path(expand_variables(text)).expanduser()))
