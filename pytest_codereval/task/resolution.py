"""From a task file, the layers around it and what the command line asks to the trials of a session."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import Problem, TaskFileError
from .dataset import ALL_ROWS, Sampling
from .layering.engine import LayeredDocument
from .layering.stack import NOTHING_GIVEN, Arm, Around, CommandLine, arms, around
from .loader import LoadedTask, TaskFile, read_task, task_of
from .trials import TrialSpec, Under, expand, expand_arms


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a session asks of all tasks.

    Without a `rootdir` only the defaults in the task's own folder hold.
    """

    repeats: int | None = None
    experiment: Path | None = None
    command_line: CommandLine = NOTHING_GIVEN
    sampling: Sampling = ALL_ROWS
    rootdir: Path | None = None


NOTHING_ASKED = Asked()


@dataclasses.dataclass(frozen=True)
class Resolved:
    """A task file as it will run: `loaded` is the task before its rows are put in, under the first variant.

    `arms` has the same for every variant.
    """

    loaded: LoadedTask
    trials: tuple[TrialSpec, ...]
    arms: tuple[ResolvedArm, ...] = ()


@dataclasses.dataclass(frozen=True)
class ResolvedArm:
    """The task under one variant: `data` is what the layers made of its file, `lineage` where each value came from."""

    variant: str | None
    loaded: LoadedTask
    data: Mapping[str, Any]
    lineage: Mapping[str, str]


def resolve(path: Path, asked: Asked = NOTHING_ASKED, text: str | None = None) -> Resolved:
    """Read a task file and make its trials.

    Raises TaskFileError, whatever the file and the layers around it hold; a problem is told at its place in the layer
    that has it.
    """
    layers = around(path, asked.rootdir, asked.experiment, asked.command_line)
    file = read_task(path, text)
    if layers.is_empty():
        loaded = task_of(file)
        arm = ResolvedArm(None, loaded, file.data, _told_of(asked.repeats))
        return Resolved(loaded, expand(loaded, asked.repeats, asked.sampling), (arm,))
    made = tuple(_checked(file, layers, asked.repeats))
    experiment = layers.experiment.content.experiment_id if layers.experiment is not None else None
    under = [Under(each.loaded, arm.changes, arm.repeats, each.variant, experiment, each.lineage) for arm, each in made]
    trials = expand_arms(under, asked.repeats, asked.sampling)
    first = made[0][1].loaded
    warnings = tuple(dict.fromkeys(warning for _, each in made for warning in each.loaded.warnings))
    return Resolved(dataclasses.replace(first, warnings=warnings), trials, tuple(each for _, each in made))


def _checked(file: TaskFile, layers: Around, repeats: int | None) -> Iterator[tuple[Arm, ResolvedArm]]:
    """Each arm with its task. Raises TaskFileError.

    Criteria, which no layer changes, are checked once for all arms with the same sandbox: what it records they know.
    """
    problems: list[Problem] = []
    first: LoadedTask | None = None
    sandbox: Any = None
    for arm in arms(file, layers):
        data = arm.merged.data
        if first is not None and data.get("sandbox") == sandbox:
            data = {**data, "success_criteria": first.task.success_criteria}
        try:
            loaded = task_of(file, data, LayeredDocument(arm.merged, file.document))
        except TaskFileError as error:
            problems += error.problems
            continue
        if first is None:
            first, sandbox = loaded, data.get("sandbox")
        lineage = arm.merged.lineage()
        if arm.repeats is not None and loaded.task.repeats is None and repeats is None:
            lineage["repeats"] = arm.repeats_from
        lineage |= _told_of(repeats)
        variant = arm.variant.variant_id if arm.variant is not None else None
        if not problems:
            yield arm, ResolvedArm(variant, loaded, arm.merged.data, lineage)
    if problems:
        raise TaskFileError(tuple(dict.fromkeys(problems)))


def _told_of(repeats: int | None) -> dict[str, str]:
    return {"repeats": f"--codereval-repeat: {repeats}"} if repeats is not None else {}
