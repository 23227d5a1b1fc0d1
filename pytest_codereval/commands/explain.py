"""`explain`: a task as it will run, with where each of its values came from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from .in_pytest import add_plugin_option, ask_pytest

if TYPE_CHECKING:
    from . import Commands

_OPTIONS = ("experiment", "agent", "model", "driver", "repeat", "sample")


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "explain",
        help="a task as it will run, with where each value came from",
        description="Prints a task as YAML as a session with the same options would run it. Behind or above each value "
        "that the task's own file does not say stands where it came from; below it stand its trials.",
    )
    command.add_argument("task", metavar="TASK", help="the task file")
    command.add_argument("--variant", metavar="NAME", help="only this variant of the experiment")
    command.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="PATH=VALUE", help="as --codereval-set"
    )
    for name in _OPTIONS:
        command.add_argument(f"--{name}", metavar="VALUE", help=f"as --codereval-{name}")
    add_plugin_option(command)
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Have pytest explain the task."""
    given = {name: getattr(arguments, name) for name in _OPTIONS}
    options = [f"--codereval-{name}={value}" for name, value in given.items() if value is not None]
    options += [f"--codereval-set={text}" for text in arguments.settings]
    return ask_pytest(arguments.plugins, [f"--codereval-explain={arguments.variant or ''}", *options, arguments.task])
