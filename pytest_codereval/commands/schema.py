"""`schema`: the JSON Schema of the files that authors write, for editors."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .in_pytest import add_plugin_option, ask_pytest

if TYPE_CHECKING:
    from . import Commands

KINDS = ("task", "experiment", "codereval")


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "schema",
        help="the JSON Schema of task files, for editors",
        description="Prints the JSON Schema (draft 2020-12) of task files, experiment files or codereval.yaml, with "
        "the agents and criteria of plugins and of the conftest.py in PATH.",
    )
    command.add_argument("kind", nargs="?", choices=KINDS, default="task", help="which files (default: task)")
    command.add_argument("path", nargs="?", help="folder whose conftest.py is to be known (default: this one)")
    add_plugin_option(command)
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Have pytest print the schema."""
    places = [arguments.path] if arguments.path else []
    return ask_pytest(arguments.plugins, ["--codereval-schema", arguments.kind, *places])
