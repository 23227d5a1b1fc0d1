"""`lint`: task files checked without being run."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .in_pytest import add_plugin_option, ask_pytest

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "lint",
        help="check task files without running them",
        description="Prints every problem and warning of all task files as FILE:LINE:COLUMN. The exit status is 1 when "
        "there is a problem, 5 when there is no task file, else 0. Options that change tasks, such as "
        "--codereval-experiment, can be given as to pytest.",
    )
    command.add_argument("paths", nargs="*", metavar="PATH", help="files and folders (default: this folder)")
    add_plugin_option(command)
    command.add_argument("--experiment", metavar="FILE", help="check the tasks as this experiment changes them")
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Have pytest check the files."""
    more = ["--codereval-experiment", arguments.experiment] if arguments.experiment else []
    return ask_pytest(arguments.plugins, ["--codereval-lint", *more, *(arguments.paths or ["."])])
