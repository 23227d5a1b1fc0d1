"""From a task to its trials: one for each row of its dataset and each repeat."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .loader import LoadedTask
from .models import Task
from .substitution import row_tasks


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


def expand(loaded: LoadedTask, repeats: int = 1) -> tuple[TrialSpec, ...]:
    """Return the trials of a task, rows in the order of the dataset, the repeats of a row together.

    `simulation.n_trials` of more than 1 goes before `repeats`.

    Raises TaskFileError for rows that cannot be used, and for criteria that are wrong once a row's values stand in
    them.
    """
    if repeats < 1:
        raise ValueError("repeats must be at least 1")
    rows: list[tuple[str | None, Mapping[str, Any] | None, Task]]
    if loaded.task.dataset is None:
        rows = [(loaded.task.row_id, None, loaded.task)]
    else:
        rows = [(row.id, row.values, task) for row, task in row_tasks(loaded)]
    simulation = loaded.task.simulation
    if simulation is not None and simulation.enabled and simulation.n_trials > 1:
        repeats = simulation.n_trials
    many = len(rows) > 1
    paths = (loaded.task.dataset.paths or ()) if loaded.task.dataset is not None else ()
    specs = []
    for row_id, row, task in rows:
        for repeat in range(1, repeats + 1):
            parts = [row_id] if many and row_id is not None else []
            parts += [f"r{repeat}"] if repeats > 1 else []
            label = "-".join(parts)
            specs.append(
                TrialSpec(
                    task, loaded.path, loaded.line, loaded.text, row_id, row, repeat, repeats, label, paths, len(rows)
                )
            )
    return tuple(specs)
