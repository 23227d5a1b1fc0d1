"""A task's folder with grading material, and the needles in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from pytest_codereval.leaks.needles import Needles, collect
from pytest_codereval.leaks.scan import Evidence, Taint, scan
from pytest_codereval.leaks.view import Given
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.snapshot import snapshot
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.models import Task
from pytest_codereval.trajectory.model import Event

CANARY = "codereval-canary-" + "5" * 32
GUID = "26b5c67b-86b7-4d8c-91e4-6c9f3b5d0a17"
GRADER = "".join(f"assert answer[{n}] == {n * n}  # the square of {n}\n" for n in range(40))
ROWS = "".join(f'{{"id": "row-{n}", "question": "{n} * {n}", "expected": {n * n}}}\n' for n in range(30))


class Suite:
    """A task's folder at `folder`; files are written by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fields: dict[str, Any] = {
            "task_id": "squares",
            "description": "square some numbers",
            "initial_prompt": "square the numbers",
            "agent": {"type": "script", "steps": [{"say": "done"}]},
            "success_criteria": [
                {"type": "run_command", "description": "right", "command": "python3 $TASK_DIR/graders/check.py"}
            ],
        }
        self.file("graders/check.py", GRADER)

    def file(self, name: str, text: str) -> Path:
        """Write a file of the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def task_file(self) -> Path:
        """Write the task."""
        return self.file("task.yaml", f"# the canary of this suite: {CANARY}\n{yaml.safe_dump(self.fields)}")

    @property
    def task(self) -> Task:
        return load_task(self.task_file()).task

    def needles(self, **more: Any) -> Needles:
        """What `collect` finds; the folder is a withheld place."""
        places: Mapping[str, Path] = {"task's folder": self.folder}
        return collect(self.task, self.task_file(), **{"places": places, **more})


def scanned(
    needles: Needles,
    workspace: Path,
    *events: Event,
    given: Given | None = None,
    log: InvocationLog | None = None,
    tells: bool = False,
    **more: Any,
) -> Taint:
    """What the scan says of these events and of the files in `workspace`, which is made if it is not there."""
    workspace.mkdir(exist_ok=True)
    copy = workspace.with_name(f"{workspace.name}-sealed")
    evidence = Evidence(events, log or InvocationLog(), snapshot(workspace, copy), copy, tells)
    return scan(needles, given or Given(), evidence, **more)
