"""The virtual environment of a task that asks for Python packages."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from ..text import shorten
from .protocol import Phase

if TYPE_CHECKING:
    from .tempdir import TempdirSandbox

INSTALL_TIMEOUT = 300.0
"""Seconds for making the environment, and again for installing."""


def install_python_packages(sandbox: TempdirSandbox, packages: Sequence[str], task_dir: Path) -> None:
    """Make a virtual environment beside the workspace, first on the PATH of all phases, with `packages`.

    Uses uv where the harness has it, else venv and pip, and shares no file with their caches; relative paths are
    relative to the task file. Raises TrialError(CONFIGURATION) for a package that starts with a dash,
    TrialError(SANDBOX) when something fails.
    """
    for package in packages:
        if package.startswith("-"):
            raise TrialError(Cause.CONFIGURATION, f"sandbox.python.env_packages: {package!r} is no package")
    folder = sandbox.root / "venv"
    python = f"{folder}/bin/python"
    uv = shutil.which("uv")
    if uv:
        make = [uv, "venv", "--quiet", "--system-site-packages", "--python", sys.executable, str(folder)]
        install = [uv, "pip", "install", "--quiet", "--link-mode", "copy", "--python", python, "--", *packages]
    else:
        make = [sys.executable, "-I", "-m", "venv", "--system-site-packages", str(folder)]
        install = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--", *packages]
    for command in (make, install):
        _run(sandbox, command, task_dir)
    sandbox.venv = folder


def _run(sandbox: TempdirSandbox, command: Sequence[str], task_dir: Path) -> None:
    """Run a tool of the harness with the harness's own environment."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    argv = ["/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", str(task_dir.absolute()), *command]
    result = sandbox.run(argv, phase=Phase.PREPARE, timeout=INSTALL_TIMEOUT, env=own)
    if result.exit_status != 0:
        how = f"took longer than {INSTALL_TIMEOUT:.0f} s" if result.timed_out else f"exit status {result.exit_status}"
        output = shorten((result.stdout_text + result.stderr_text).strip(), 2000)
        raise TrialError(Cause.SANDBOX, f"sandbox.python.env_packages: {' '.join(command[:4])} ...: {how}\n{output}")
