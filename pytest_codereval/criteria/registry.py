"""Finding the checker of a criterion by its type."""

from __future__ import annotations

import importlib
from typing import cast

from ..errors import JudgingError
from .contract import Checker

TYPES = (
    "agent_judge",
    "classification_match",
    "cli_called",
    "command_executed",
    "commands_efficiency",
    "file_check",
    "file_contains",
    "file_exists",
    "file_matches_regex",
    "json_check",
    "llm_judge",
    "reference_comparison",
    "run_command",
    "skill_triggered",
    "system_one_judge",
    "uipath_eval",
)
"""The names of all types. Each is a module of this package with a function `check`."""


def checker(type_name: str) -> Checker:
    """Return the checker of the criterion type `type_name`. Raises JudgingError for an unknown type."""
    if type_name not in TYPES:
        raise JudgingError(f"no criterion type is named {type_name!r}")
    module = importlib.import_module(f"{__package__}.{type_name}")
    return cast(Checker, module.check)
