"""The virtual environment of a task that asks for Python packages."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from ..text import shorten

if TYPE_CHECKING:
    from .protocol import Sandbox

INSTALL_TIMEOUT = 300.0
"""Seconds for making the environment, and again for installing."""


def install_python_packages(sandbox: Sandbox, packages: Sequence[str], task_dir: Path) -> None:
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
    uv = shutil.which("uv") if Path(sandbox.python).is_absolute() else None
    if uv:
        make = [uv, "venv", "--quiet", "--system-site-packages", "--python", sandbox.python, str(folder)]
        install = [uv, "pip", "install", "--quiet", "--link-mode", "copy", "--python", python, "--", *packages]
    else:
        make = [sandbox.python, "-I", "-m", "venv", "--system-site-packages", str(folder)]
        install = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--", *packages]
    for command in (make, install):
        _run(sandbox, command, task_dir)
    sandbox.venv = folder


def _run(sandbox: Sandbox, command: Sequence[str], task_dir: Path) -> None:
    result = sandbox.run_tool(command, cwd=task_dir.absolute(), timeout=INSTALL_TIMEOUT)
    if result.exit_status != 0:
        how = f"took longer than {INSTALL_TIMEOUT:.0f} s" if result.timed_out else f"exit status {result.exit_status}"
        output = shorten((result.stdout_text + result.stderr_text).strip(), 2000)
        raise TrialError(Cause.SANDBOX, f"sandbox.python.env_packages: {' '.join(command[:4])} ...: {how}\n{output}")
