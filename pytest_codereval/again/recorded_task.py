"""The task as a record tells it: what it would execute or read, and the trial to judge by it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import CoderEvalError
from ..store.reader import StoredRecord
from ..store.run_directory import ONLY_TRIAL
from ..text import shorten

if TYPE_CHECKING:
    from ..task.models import Task
    from ..task.trials import TrialSpec

HARMLESS = frozenset(
    {
        *("file_exists", "file_contains", "file_matches_regex", "file_check", "json_check"),
        *("command_executed", "cli_called", "commands_efficiency", "skill_triggered", "classification_match"),
    }
)
"""Criteria that only look at the stored evidence. Whatever else a record names may execute or read something."""

LONGEST_SHOWN = 200


def recorded_spec(stored: StoredRecord, *, trusted: bool) -> TrialSpec:
    """The trial of a record, judged by the criteria that stand in it. Raises CoderEvalError.

    Unless the record is `trusted` nothing of its sandbox is made, and none of its files is read: that leaves what
    criteria that are harmless need.
    """
    from pydantic import ValidationError

    from ..task.models import Task
    from ..task.trials import TrialSpec

    told, trial = stored.content.get("task"), stored.content["trial"]
    try:
        assert isinstance(told, dict)
        task = Task.model_validate(told["resolved"])
        path, line, text = Path(told["file"]), int(told["line"]), str(told["source"])
        repeats = int(trial["repeats"])
    except (AssertionError, KeyError, TypeError, ValueError, OverflowError, ValidationError) as error:
        said = "; ".join(detail["msg"] for detail in error.errors()) if isinstance(error, ValidationError) else error
        raise CoderEvalError(f"{stored.path}: its task is not one that this command reads: {said}") from None
    return TrialSpec(
        task=task if trusted else _without_means(task),
        path=path,
        line=line,
        text=text,
        row_id=trial["row_id"],
        row=trial.get("row"),
        repeat=trial["repeat"],
        repeats=repeats,
        label=_label(stored),
        rows=trial.get("rows", 1),
        variant=trial.get("variant"),
        experiment=trial.get("experiment"),
    )


def under_its_name(spec: TrialSpec, stored: StoredRecord) -> TrialSpec:
    """A trial of a task file, called and counted as the one of the record that it judges. Raises CoderEvalError."""
    trial, key = stored.content["trial"], stored.key
    try:
        repeats, rows = int(trial["repeats"]), int(trial.get("rows", 1))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CoderEvalError(f"{stored.path}: its trial is not one that this command reads: {error!r}") from None
    return dataclasses.replace(
        spec,
        repeat=key.repeat,
        repeats=repeats,
        rows=rows,
        variant=key.variant,
        experiment=trial.get("experiment"),
        label=_label(stored),
    )


def _label(stored: StoredRecord) -> str:
    name = stored.folder.name.partition(".again")[0]
    return "" if name == ONLY_TRIAL else name


def _without_means(task: Task) -> Task:
    from ..task.models import SandboxConfig

    sandbox = SandboxConfig().model_copy(
        update={"ignore_patterns": task.sandbox.ignore_patterns, "record_cli": task.sandbox.record_cli}
    )
    return task.model_copy(update={"sandbox": sandbox, "pre_run": (), "post_run": (), "reference": None})


def would_execute(task: Task) -> Iterator[str]:
    """What judging by this task would execute, ask or read beside the stored evidence, one text each."""
    for index, criterion in enumerate(task.success_criteria):
        if criterion.enabled and criterion.type not in HARMLESS:
            known: Any = criterion
            told = getattr(known, "command", None) or getattr(known, "prompt", None) or known.description
            yield f"success_criteria[{index}] {criterion.type}: {shorten(' '.join(str(told).split()), LONGEST_SHOWN)}"
