"""`drivers`: which drivers of sandboxes can be had on this machine, and what each isolates."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ..errors import CoderEvalError
from ..text import clean

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "drivers",
        help="which drivers of sandboxes can be had on this machine",
        description="Lists the built-in drivers, the strongest first: whether each can be had on this machine, why "
        "not, and what it isolates. The exit status is 0.",
    )
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Print the list."""
    from ..sandbox.choice import PROMISES, availabilities
    from ..sandbox.drivers import Isolation

    for name, availability in availabilities().items():
        state = "can be had" if availability.usable else f"cannot be had: {availability.reason}"
        lines = [f"{name}: {state}", f"    {PROMISES[Isolation[name.upper()]]}"]
        if availability.usable and (said := _said_by_a_sandbox(name)):
            lines.append(f"    on this machine: {said}")
        print("\n".join(map(clean, lines)))
    return 0


def _said_by_a_sandbox(name: str) -> str | None:
    """What a sandbox without any settings isolates here; None for a driver that makes none without settings."""
    from ..reports.isolation import isolation_text
    from ..sandbox.drivers import Order, driver
    from ..task.models import SandboxConfig

    try:
        sandbox = driver(name).create(Order(SandboxConfig()))
    except (CoderEvalError, OSError):
        return None
    try:
        return isolation_text(name, sandbox.described)
    finally:
        sandbox.close()
