"""Loading a task file: text, data, model, and every mistake with its line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import Problem, TaskFileError
from .base import Finding
from .fields import ROW_MARK
from .models import STALE_KEYS, Task
from .problems import Places, describe, finding_problem, problem_at, problems_of, shown_path, unreadable
from .reply_tables import reply_findings
from .reply_texts import keys_in
from .task_rules import load_findings
from .yaml_reader import Document, ReadError, read, read_text


@dataclasses.dataclass(frozen=True)
class LoadedTask:
    """A task, the file and text that it came from, the line of its `task_id`, and what its author should know.

    `places` says where each value stands, None for the file alone.
    """

    task: Task
    path: Path
    text: str
    line: int
    warnings: tuple[Problem, ...] = ()
    places: Places | None = None


@dataclasses.dataclass(frozen=True)
class TaskFile:
    """The data of a task file, not checked yet."""

    path: Path
    text: str
    document: Document
    shown: str

    @property
    def data(self) -> Mapping[str, Any]:
        """The mapping that the file holds."""
        return self.document.data  # type: ignore[no-any-return]


def load_task(path: Path, text: str | None = None) -> LoadedTask:
    """Read and check one task file; `text` spares reading it again. Raises TaskFileError, whatever the file holds."""
    return task_of(read_task(path, text))


def read_task(path: Path, text: str | None = None) -> TaskFile:
    """Read a task file. Raises TaskFileError for what is no mapping in YAML."""
    shown = shown_path(path)
    try:
        text = read_text(path) if text is None else text
        document = read(text)
    except ReadError as error:
        raise TaskFileError((unreadable(shown, error),)) from None
    if not isinstance(document.data, Mapping):
        message = f"a task is a mapping of keys and values; found {describe(document.data)}"
        raise TaskFileError((problem_at(shown, document, (), message),))
    return TaskFile(path, text, document, shown)


def task_of(file: TaskFile, data: Mapping[str, Any] | None = None, places: Places | None = None) -> LoadedTask:
    """Check a task. `data` is what layers around its file made of it, `places` where that stands.

    Raises TaskFileError with all that is wrong.
    """
    path, shown = file.path, file.shown
    document = file.document if places is None else places
    data = file.data if data is None else data
    errors, warnings = _duplicates(shown, file.document)
    warnings += [
        problem_at(shown, document, (key,), f"{key} is no longer used; delete it") for key in STALE_KEYS if key in data
    ]
    errors += [finding_problem(shown, document, finding) for finding in _row_keys(data)]
    task = _validated(shown, document, data, errors)
    wrong, doubtful = load_findings(task)
    about_replies, in_tables, doubtful_in_tables = reply_findings(task, path.parent, task.dataset is not None)
    errors += [finding_problem(shown, document, finding) for finding in (*wrong, *about_replies)]
    errors += in_tables
    if errors:
        raise TaskFileError(tuple(errors))
    warnings += [finding_problem(shown, document, finding) for finding in doubtful]
    warnings += doubtful_in_tables
    line, _ = file.document.position(("task_id",))
    return LoadedTask(task, path, file.text, line, tuple(warnings), places)


def _validated(shown: str, document: Places, data: Mapping[str, Any], errors: list[Problem]) -> Task:
    try:
        return Task.model_validate(data, context=validation_context(data))
    except ValidationError as error:
        raise TaskFileError((*errors, *problems_of(error, shown, document, Task))) from None


def _row_keys(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Keys that ask for the value of a row, where rows are put into values."""
    if data.get("dataset") is None:
        return
    for location in (("success_criteria",), ("sandbox", "record_cli"), ("agent", "steps")):
        value: Any = data
        for part in location:
            value = value.get(part) if isinstance(value, Mapping) else None
        for place, key in keys_in(value, location):
            if ROW_MARK in key:
                yield Finding(place, "rows are put into values, not into keys")


def validation_context(data: Mapping[str, Any]) -> dict[str, Any]:
    """What single values must know of their task: whether rows will be put in, which tools declare their options.

    To be given to `Task.model_validate` together with the data of a task.
    """
    sandbox = data.get("sandbox")
    entries = sandbox.get("record_cli") if isinstance(sandbox, Mapping) else None
    tools = [entry for entry in entries or () if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    declared = {entry["tool"] for entry in tools if entry.get("options") and isinstance(entry.get("tool"), str)}
    return {"rows": data.get("dataset") is not None, "declared": declared}


def _duplicates(shown: str, document: Document) -> tuple[list[Problem], list[Problem]]:
    errors: list[Problem] = []
    warnings: list[Problem] = []
    for duplicate in document.duplicates:
        key = str(duplicate.location[-1])
        inside = duplicate.location[0] == "success_criteria"
        message = f"the key {key!r} stands here again (first on line {duplicate.first_line})"
        message += "" if inside else "; the last one counts"
        place = problem_at(shown, document, duplicate.location, message)
        exact = dataclasses.replace(place, line=duplicate.line, column=duplicate.column)
        (errors if inside else warnings).append(exact)
    return errors, warnings
