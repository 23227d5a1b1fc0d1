"""From a task to its trials: one for each row of its dataset, each variant and each repeat."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import Problem, TaskFileError
from .dataset import ALL_ROWS, Row, Sampling
from .layering.prompts import Change, changed
from .loader import LoadedTask
from .models import Task
from .problems import shown_path
from .prompt_file import prompt_from_file
from .repeat_models import repeats_of, too_large
from .substitution import FieldError, Made, row_tasks, substitute
from .task_rules import reference_leaks
from .variables import UndefinedVariable, host_path


@dataclasses.dataclass(frozen=True)
class TrialSpec:
    """One trial to run. `task` has the row's values in it and no dataset; `repeat` counts from 1 to `repeats`.

    `label` tells the trials of a task apart: "" | "row-1" | "variant" | "r2" | "row-1-variant-r2". `rows` is how many
    rows of the dataset run in this session, 1 without one. `dataset_paths` are the files of the dataset as the task
    names them: they are answer keys. `lineage` says for each setting that did not come from the task itself where it
    came from, by its dotted path.
    """

    task: Task
    path: Path
    line: int
    text: str
    row_id: str | None = None
    row: Mapping[str, Any] | None = None
    repeat: int = 1
    repeats: int = 1
    label: str = ""
    dataset_paths: tuple[str, ...] = ()
    rows: int = 1
    variant: str | None = None
    experiment: str | None = None
    lineage: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def trial_id(self) -> str:
        """`task-id`, or `task-id[label]`."""
        return f"{self.task.task_id}[{self.label}]" if self.label else self.task.task_id


@dataclasses.dataclass(frozen=True)
class Under:
    """A checked task under one variant: how its prompt is changed, and how often it is tried if it does not say."""

    loaded: LoadedTask
    changes: tuple[Change, ...] = ()
    repeats: int | None = None
    variant: str | None = None
    experiment: str | None = None
    lineage: Mapping[str, str] = dataclasses.field(default_factory=dict)


def expand(loaded: LoadedTask, repeats: int | None = None, sampling: Sampling = ALL_ROWS) -> tuple[TrialSpec, ...]:
    """Return the trials of a task without variants. See `expand_arms`."""
    return expand_arms([Under(loaded)], repeats, sampling)


def expand_arms(
    arms: Sequence[Under], repeats: int | None = None, sampling: Sampling = ALL_ROWS
) -> tuple[TrialSpec, ...]:
    """Return the trials of a task: rows in the order of the dataset, the variants of a row, repeats together.

    `repeats` goes before the number that the task asks for, that before the variant's; `simulation.n_trials` of more
    than 1 goes before all.

    Raises TaskFileError for rows that cannot be used, for criteria that are wrong once a row's values stand in them,
    for targets that need more attempts than there are, and when two trials would have one name.
    """
    made: Made = {}
    cases = [list(_cases(arm, sampling, made)) for arm in arms]
    attempts = [number_of_attempts(arm.loaded, repeats, arm.repeats) for arm in arms]
    number_of_rows = len(cases[0])
    specs = []
    for position in range(number_of_rows):
        for arm, rows, count in zip(arms, cases, attempts, strict=True):
            row, task = rows[position]
            parts = [row.id] if row is not None and number_of_rows > 1 else []
            parts += [arm.variant] if arm.variant is not None and len(arms) > 1 else []
            first = _spec(arm, row, task, number_of_rows)
            for repeat in range(1, count + 1):
                label = "-".join([*parts, *([f"r{repeat}"] if count > 1 else [])])
                specs.append(dataclasses.replace(first, repeat=repeat, repeats=count, label=label))
    _refuse_one_name(arms[0].loaded, specs)
    return tuple(specs)


def _cases(arm: Under, sampling: Sampling, made: Made) -> Iterator[tuple[Row | None, Task]]:
    loaded = arm.loaded
    whole: list[tuple[Row | None, Task]] = [(None, loaded.task)]
    cases = whole if loaded.task.dataset is None else row_tasks(loaded, sampling, made)
    for row, task in cases:
        yield row, _with_changes(task, arm, row) if arm.changes else task


def _spec(arm: Under, row: Row | None, task: Task, rows: int) -> TrialSpec:
    loaded = arm.loaded
    return TrialSpec(
        task=task,
        path=loaded.path,
        line=loaded.line,
        text=loaded.text,
        row_id=row.id if row is not None else task.row_id,
        row=row.values if row is not None else None,
        dataset_paths=(loaded.task.dataset.paths or ()) if loaded.task.dataset is not None else (),
        rows=rows,
        variant=arm.variant,
        experiment=arm.experiment,
        lineage=arm.lineage,
    )


def _with_changes(task: Task, arm: Under, row: Row | None) -> Task:
    """The task with its prompt, which may stand in a file, as the experiment changes it."""
    values = row.values if row is not None else None

    def fill(text: str) -> str:
        return text if values is None else substitute(text, values)

    prompt = task.initial_prompt
    if prompt is None:
        prompt = prompt_from_file(_prompt_file(task, arm), values)
    try:
        prompt = changed(prompt, arm.changes, fill)
    except (FieldError, ValueError) as error:
        raise _about_changes(arm, str(error)) from None
    for finding in reference_leaks(prompt, ()):
        raise _about_changes(arm, finding.message)
    if not prompt.strip():
        raise _about_changes(arm, "the prompt is empty")
    return task.model_copy(update={"initial_prompt": prompt, "initial_prompt_file": None})


def _prompt_file(task: Task, arm: Under) -> Path:
    try:
        return host_path(task.initial_prompt_file or "", arm.loaded.path.parent)
    except UndefinedVariable as error:
        raise _about_changes(arm, f"initial_prompt_file: {error}") from None


def _about_changes(arm: Under, message: str) -> TaskFileError:
    told = ", ".join(change.told() for change in arm.changes)
    return TaskFileError(
        (Problem(shown_path(arm.loaded.path), arm.loaded.line, 1, "initial_prompt", f"{message}; changed by {told}"),)
    )


def _refuse_one_name(loaded: LoadedTask, specs: Sequence[TrialSpec]) -> None:
    seen: set[str] = set()
    for spec in specs:
        if spec.label in seen:
            message = f"two trials would be called {spec.trial_id}: rename the row {spec.row_id!r} or the variant"
            raise TaskFileError((Problem(shown_path(loaded.path), loaded.line, 1, "", message),))
        seen.add(spec.label)


def number_of_attempts(loaded: LoadedTask, asked: int | None, otherwise: int | None = None) -> int:
    """How often each row is tried: as `asked`, else as the task says, `otherwise` if it does not.

    Raises TaskFileError when a target of the task needs more attempts than that.
    """
    count, targets = repeats_of(loaded.task)
    if loaded.task.repeats is None and otherwise is not None:
        count = otherwise
    number = count if asked is None else asked
    simulation = loaded.task.simulation
    if simulation is not None and simulation.enabled and simulation.n_trials > 1:
        number = simulation.n_trials
    if number < 1:
        raise ValueError("repeats must be at least 1")
    if found := too_large(targets, number):
        message = "; ".join(f"{name} needs at least {k} attempts, this session makes {number}" for name, k in found)
        raise TaskFileError((Problem(str(loaded.path), loaded.line, 1, "repeats.targets", message),))
    return number
