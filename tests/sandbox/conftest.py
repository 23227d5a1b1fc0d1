"""Sandboxes that are closed when a test ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.sandbox import landlock
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.models import SandboxConfig, Task
from tests.sandbox.making import create

MakeSandbox = Callable[..., DirectorySandbox]
MakeTask = Callable[..., Task]


@pytest.fixture
def make_sandbox() -> Iterator[MakeSandbox]:
    """Make a sandbox from the fields of its configuration, `plan` and `root_parent`."""
    made: list[DirectorySandbox] = []

    def make(plan: EnvironmentPlan | None = None, root_parent: Path | None = None, **config: Any) -> DirectorySandbox:
        made.append(create(SandboxConfig(**config), environments=plan or EnvironmentPlan(), root_parent=root_parent))
        return made[-1]

    yield make
    for sandbox in made:
        try:
            sandbox.close()
        except CoderEvalError:
            sandbox.close()


@pytest.fixture
def sandbox(make_sandbox: MakeSandbox) -> DirectorySandbox:
    return make_sandbox()


@pytest.fixture
def without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a kernel whose Landlock restricts no files: what it would prevent has to be noticed there."""
    monkeypatch.setattr(landlock, "abi", lambda: 0)


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Load a task from the YAML of its `sandbox` block and what comes below it, in `tmp_path/task/`."""

    def make(block: str = "", rest: str = "") -> Task:
        folder = tmp_path / "task"
        folder.mkdir(exist_ok=True)
        indented = "".join(f"  {line}\n" for line in block.strip("\n").split("\n")) if block else ""
        text = (
            "task_id: sample\ndescription: d\ninitial_prompt: p\n"
            + (f"sandbox:\n{indented}" if indented else "")
            + rest
            + "\nsuccess_criteria:\n  - {type: file_exists, path: a, description: d}\n"
        )
        (folder / "task.yaml").write_text(text, encoding="utf-8")
        return load_task(folder / "task.yaml").task

    return make


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set variables of the harness's environment."""

    def set_all(**values: str) -> None:
        for name, value in values.items():
            monkeypatch.setitem(os.environ, name, value)

    return set_all
