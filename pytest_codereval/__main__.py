"""`python -m pytest_codereval`: what can be asked without running a session."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .commands import add_all
from .errors import CoderEvalError
from .text import clean

WRONG_COMMAND_LINE = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out one command. Returns its exit status; a wrong command line, or input that cannot be used, is 2."""
    parser = argparse.ArgumentParser(prog="python -m pytest_codereval", description="Asked beside pytest.")
    add_all(parser.add_subparsers(title="commands", required=True, metavar="COMMAND"))
    chosen = parser.parse_args(arguments)
    try:
        status: int = chosen.carry_out(chosen)
    except CoderEvalError as error:
        print(clean(str(error)), file=sys.stderr)
        return WRONG_COMMAND_LINE
    return status


if __name__ == "__main__":
    sys.exit(main())
