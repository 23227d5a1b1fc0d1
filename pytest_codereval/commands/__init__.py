"""`python -m pytest_codereval COMMAND`: one module for each command, with a function `add` and what it carries out."""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

NAMES = ("drivers", "canary", "explain", "schema", "lint", "regrade", "report", "compare")
"""The commands in the order of the help; each is a module of this package."""


def add_all(commands: Commands) -> None:
    """Add every command. Each sets `carry_out`, which takes the parsed arguments and returns the exit status."""
    for name in NAMES:
        importlib.import_module(f"{__name__}.{name}").add(commands)
