"""Packages that a task asks for: a virtual environment for those of Python, `node_modules` for those of npm."""

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

NODE_PROGRAMS = "node_modules/.bin"
"""Where in the workspace the programs of npm packages lie."""


def install_python_packages(sandbox: Sandbox, packages: Sequence[str], task_dir: Path) -> None:
    """Make a virtual environment beside the workspace, first on the PATH of all phases, with `packages`.

    Uses uv where the harness has it, else venv and pip, and shares no file with their caches; relative paths are
    relative to the task file. Raises TrialError(CONFIGURATION) for a package that starts with a dash,
    TrialError(SANDBOX) when something fails.
    """
    _refuse_options(packages, "sandbox.python.env_packages")
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
        _run(sandbox, command, task_dir, "sandbox.python.env_packages")
    sandbox.venv = folder


def install_node_packages(sandbox: Sandbox, packages: Sequence[str]) -> None:
    """Install npm packages into `node_modules` of the workspace; no file beside it is made or changed.

    Needs npm where the tools of the sandbox run. Raises TrialError(CONFIGURATION) for a package that starts with a
    dash, TrialError(SANDBOX) when npm fails or is not there.
    """
    where = "sandbox.node.env_packages"
    _refuse_options(packages, where)
    quiet = ("--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error")
    command = ["npm", "install", "--prefix", str(sandbox.workspace), *quiet, "--", *packages]
    _run(sandbox, command, sandbox.workspace, where)


def _refuse_options(packages: Sequence[str], where: str) -> None:
    for package in packages:
        if package.startswith("-"):
            raise TrialError(Cause.CONFIGURATION, f"{where}: {package!r} is no package")


def _run(sandbox: Sandbox, command: Sequence[str], folder: Path, where: str) -> None:
    result = sandbox.run_tool(command, cwd=folder.absolute(), timeout=INSTALL_TIMEOUT)
    if result.exit_status != 0:
        how = f"took longer than {INSTALL_TIMEOUT:.0f} s" if result.timed_out else f"exit status {result.exit_status}"
        output = shorten((result.stdout_text + result.stderr_text).strip(), 2000)
        raise TrialError(Cause.SANDBOX, f"{where}: {' '.join(command[:4])} ...: {how}\n{output}")
