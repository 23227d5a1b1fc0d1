"""From a task file and what the command line asks to the trials of a session."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from .loader import LoadedTask, load_task
from .trials import TrialSpec, expand


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the command line asks of all tasks of a session."""

    repeats: int | None = None


NOTHING_ASKED = Asked()


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A task file as it will run: `loaded` is the task before its rows are put in."""

    loaded: LoadedTask
    trials: tuple[TrialSpec, ...]


def resolve(path: Path, asked: Asked = NOTHING_ASKED, text: str | None = None) -> Resolved:
    """Read a task file and make its trials. Raises TaskFileError, whatever the file holds."""
    loaded = load_task(path, text)
    return Resolved(loaded, expand(loaded, asked.repeats or 1))
