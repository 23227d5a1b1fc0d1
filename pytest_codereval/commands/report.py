"""`report`: a run as Markdown or as an HTML page."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import CoderEvalError

if TYPE_CHECKING:
    from . import Commands


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "report",
        help="a run as Markdown or HTML",
        description="Reads a run directory, also one whose session was killed, and writes what it came to: figures by "
        "variant with intervals, gates, what did not pass and why, tasks. HTML has every trial with its criteria and "
        "calls. The exit status is 0 whatever the trials came to.",
    )
    command.add_argument("run", metavar="RUN", type=Path, help="run directory")
    command.add_argument("-f", "--format", choices=("md", "html"), help="default: by the name of FILE, else md")
    command.add_argument("-o", "--output", metavar="FILE", type=Path, help="default: standard output")
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Write the report. Raises CoderEvalError for what is no run directory or cannot be written."""
    from ..reports import html, markdown
    from ..reports.run_report import read_run

    output: Path | None = arguments.output
    by_name = "html" if output is not None and output.suffix in (".html", ".htm") else "md"
    page = (html if (arguments.format or by_name) == "html" else markdown).run_page(read_run(arguments.run))
    write(page, output)
    return 0


def write(page: str, output: Path | None) -> None:
    """Write a page in UTF-8 to a file, or to standard output, of which a reader may want the beginning only.

    Raises CoderEvalError.
    """
    if output is None:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")
        try:
            sys.stdout.write(page)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    try:
        output.write_text(page, encoding="utf-8")
    except OSError as error:
        raise CoderEvalError(f"{output}: cannot be written: {error.strerror}") from None
