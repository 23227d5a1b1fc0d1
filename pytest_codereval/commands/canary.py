"""`canary`: a fresh token for grading material that the agent must not see."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "canary",
        help="a fresh canary for grading material",
        description="Prints a token that nobody has, to be put into files that the agent must not see.",
    )
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Print a token, and on standard error what to do with it."""
    from ..leaks.tokens import HOW_TO_USE, fresh_canary

    print(fresh_canary(), flush=True)
    print(HOW_TO_USE, file=sys.stderr)
    return 0
