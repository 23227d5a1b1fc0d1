"""What must know the plugins and conftest files of a project is asked of pytest, in a process of its own."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence


def add_plugin_option(command: argparse.ArgumentParser) -> None:
    """Add `-p`, for plugins that are not loaded by themselves."""
    command.add_argument(
        "-p",
        dest="plugins",
        action="append",
        default=[],
        metavar="PLUGIN",
        help="a plugin to load, as by pytest -p; what is installed as one, and the conftest.py of the places that are "
        "named, is loaded without",
    )


def ask_pytest(plugins: Sequence[str], arguments: Sequence[str]) -> int:
    """Call pytest with these arguments, quietly and in one process, and return its exit status."""
    loaded = [part for name in plugins for part in ("-p", name)]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-qq", "-n", "0", *loaded, *arguments], check=False
    ).returncode
