"""Small task files for the tests of this room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pytest_codereval.errors import Problem, TaskFileError
from pytest_codereval.task.loader import LoadedTask, load_task

PATH = Path("task.yaml")
EXISTS = {"type": "file_exists", "description": "d", "path": "a.txt"}


def task_data(**changes: Any) -> dict[str, Any]:
    """A valid task as plain data; a change to None leaves the key out."""
    data = {"task_id": "t", "description": "d", "initial_prompt": "hi", "success_criteria": [EXISTS], **changes}
    return {key: value for key, value in data.items() if value is not None}


def task_text(**changes: Any) -> str:
    return yaml.safe_dump(task_data(**changes), sort_keys=False)


def load(**changes: Any) -> LoadedTask:
    return load_task(PATH, task_text(**changes))


def criterion(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "description": "d", **fields}


def load_criterion(kind: str, task: dict[str, Any] | None = None, **fields: Any) -> Any:
    """The criterion as loaded in an otherwise valid task."""
    return load(success_criteria=[criterion(kind, **fields)], **(task or {})).task.success_criteria[0]


def problems(text: str | None = None, **changes: Any) -> tuple[Problem, ...]:
    """The problems of a task, () when it loads."""
    try:
        load_task(PATH, task_text(**changes) if text is None else text)
    except TaskFileError as error:
        return error.problems
    return ()


def criterion_problems(kind: str, task: dict[str, Any] | None = None, **fields: Any) -> tuple[Problem, ...]:
    return problems(success_criteria=[criterion(kind, **fields)], **(task or {}))
