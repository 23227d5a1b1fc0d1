"""`python -m pytest_codereval`: what can be asked without running a session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .errors import CoderEvalError
from .text import clean


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command. Returns its exit status; a wrong command line exits with 2."""
    parser = argparse.ArgumentParser(prog="python -m pytest_codereval", description="Asked beside pytest.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    drivers = commands.add_parser(
        "drivers",
        help="which drivers of sandboxes can be had on this machine",
        description="Lists the built-in drivers, the strongest first: whether each can be had on this machine, why "
        "not, and what it isolates. The exit status is 0.",
    )
    drivers.set_defaults(carry_out=_drivers)
    canary = commands.add_parser(
        "canary",
        help="a fresh canary for grading material",
        description="Prints a token that nobody has, to be put into files that the agent must not see.",
    )
    canary.set_defaults(carry_out=_canary)
    chosen = parser.parse_args(arguments)
    status: int = chosen.carry_out()
    return status


def _drivers() -> int:
    from .sandbox.choice import PROMISES, availabilities
    from .sandbox.drivers import Isolation

    for name, availability in availabilities().items():
        state = "can be had" if availability.usable else f"cannot be had: {availability.reason}"
        lines = [f"{name}: {state}", f"    {PROMISES[Isolation[name.upper()]]}"]
        if availability.usable and (said := _said_by_a_sandbox(name)):
            lines.append(f"    on this machine: {said}")
        print("\n".join(map(clean, lines)))
    return 0


def _said_by_a_sandbox(name: str) -> str | None:
    """What a sandbox without any settings isolates here; None for a driver that makes none without settings."""
    from .reports.isolation import isolation_text
    from .sandbox.drivers import Order, driver
    from .task.models import SandboxConfig

    try:
        sandbox = driver(name).create(Order(SandboxConfig()))
    except (CoderEvalError, OSError):
        return None
    try:
        return isolation_text(name, sandbox.described)
    finally:
        sandbox.close()


def _canary() -> int:
    from .leaks.tokens import HOW_TO_USE, fresh_canary

    print(fresh_canary(), flush=True)
    print(HOW_TO_USE, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
