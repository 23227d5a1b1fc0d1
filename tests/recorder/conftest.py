"""Fixtures of the recorder's tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.recorder.answering import ShimPlan

from .shadowing import INTERPRETERS, NonRoot, Shadow, Shadowed, Tool


@pytest.fixture
def shadow(tmp_path: Path) -> Iterator[Shadow]:
    """Make a Shadowed of plans, or names of tools that fail; closed at the end."""
    made: list[Shadowed] = []

    def make(
        *tools: ShimPlan | str, interpreter: str | None = None, root: Path | None = None, **options: Any
    ) -> Shadowed:
        plans = [Tool(tool) if isinstance(tool, str) else tool for tool in tools]
        made.append(Shadowed(root or tmp_path / f"trial{len(made)}", plans, interpreter, **options))
        return made[-1]

    yield make
    for shadowed in made:
        shadowed.recorder.close()


@pytest.fixture(params=sorted(INTERPRETERS))
def interpreter(request: pytest.FixtureRequest) -> str:
    """The shebang of each shell that a shim may run under."""
    shebang = INTERPRETERS[request.param]
    if not os.access(shebang.split()[0], os.X_OK):
        pytest.skip(f"no {request.param} here")
    return shebang


@pytest.fixture
def non_root() -> Iterator[NonRoot]:
    home = Path(tempfile.mkdtemp(prefix="codereval-test-")).resolve()
    yield NonRoot(home)
    subprocess.run(["chmod", "-R", "u+rwX", home], check=False)
    shutil.rmtree(home)
