"""What the options of this session ask of all tasks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .agents import add_agents_of_plugins
from .isolation import add_drivers_of_plugins

if TYPE_CHECKING:
    from ..task.resolution import Resolved


def resolved(config: pytest.Config, path: Path) -> Resolved:
    """The task file with its trials as this session runs them. Raises TaskFileError."""
    from ..task.resolution import Asked, resolve

    add_agents_of_plugins(config)
    add_drivers_of_plugins(config)
    return resolve(path, Asked(repeats=config.getoption("codereval_repeat")))
