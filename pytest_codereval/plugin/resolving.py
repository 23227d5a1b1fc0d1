"""The one way from a task file to its trials in a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .agents import add_agents_of_plugins
from .criteria import add_criteria_of_plugins
from .experiment import asked
from .isolation import add_drivers_of_plugins

if TYPE_CHECKING:
    from ..task.resolution import Resolved


def resolved(config: pytest.Config, path: Path) -> Resolved:
    """The task file with its trials as this session runs them. Raises TaskFileError."""
    from ..task.resolution import resolve

    add_agents_of_plugins(config)
    add_criteria_of_plugins(config)
    add_drivers_of_plugins(config)
    return resolve(path, asked(config))
