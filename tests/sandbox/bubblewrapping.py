"""Sandboxes of the driver `bubblewrap` for tests, also in a process of another user, where pytest may be missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_codereval.sandbox.bubblewrap.driver import BubblewrapDriver
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase, ProcessResult
from tests.sandbox.making import _plain_config

REPOSITORY = Path(__file__).parents[2]
OTHER_USER = 65534


def make(
    *, withhold: tuple[Path, ...] = (), hidden: tuple[Path, ...] = (), network: Any = None, **limits: Any
) -> DirectorySandbox:
    """An empty sandbox."""
    config = _plain_config()
    config.network = network
    vars(config.limits).update(limits)
    return BubblewrapDriver().create(Order(config, EnvironmentPlan(withhold=withhold), hidden=hidden))


def sh(sandbox: DirectorySandbox, text: str, phase: Phase = Phase.AGENT, timeout: float = 20) -> ProcessResult:
    """Run shell text."""
    return sandbox.run(["/bin/sh", "-c", text], phase=phase, timeout=timeout)


def said(sandbox: DirectorySandbox, text: str, phase: Phase = Phase.AGENT) -> str:
    """What shell text prints, also on standard error."""
    result = sh(sandbox, text, phase)
    return (result.stdout + result.stderr).decode()


def python_for_all() -> str | None:
    """An interpreter that other users can start too."""
    return next((path for path in ("/usr/bin/python3", sys.executable) if _runs(path)), None)


def as_other_user(python: str, program: str) -> str:
    """What a program prints that another user runs by `python`, with a place of his own for temporary files."""
    place = Path(tempfile.mkdtemp(prefix="cev-test-", dir="/tmp"))
    os.chown(place, OTHER_USER, OTHER_USER)
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(place), "TMPDIR": str(place)}
    try:
        done = _run(python, ["-B", "-c", program], environment | {"PYTHONPATH": str(REPOSITORY)})
    finally:
        shutil.rmtree(place)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(python: str, arguments: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [python, *arguments],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        user=OTHER_USER,
        group=OTHER_USER,
        extra_groups=[],
        check=False,
    )


def _runs(python: str) -> bool:
    try:
        return _run(python, ["-c", "import sys; sys.exit(sys.version_info < (3, 11))"], {}).returncode == 0
    except OSError:
        return False
