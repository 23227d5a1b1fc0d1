"""The layers around a task's file, from the lowest to the highest, and what they make of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..base import Location
from ..experiment_models import (
    Experiment,
    ExperimentDefaults,
    LayerFile,
    Variant,
    read_defaults,
    read_experiment,
)
from ..experiment_models import Layer as LayerModel
from ..loader import TaskFile
from ..models import Task
from . import DEFAULTS_FILE
from .agents import make_room, override, settle
from .engine import Layer, Merged, Origin
from .prompts import Change
from .relocation import relocated
from .settings import OPTION, Setting

_TARGETS: Mapping[str, Location] = {
    "driver": ("sandbox", "driver"),
    "template_sources": ("sandbox", "template_sources"),
}
_WITHOUT_TARGET = frozenset({"repeats", "prompt_mutations", "variant_id", "description"})
_ORDER = ("sandbox",)
"""Keys that are merged before the others, which say parts of the same again."""

FROM_MODEL = Layer("--codereval-model", "--codereval-model", overlay=True)
FROM_DRIVER = Layer("--codereval-driver", "--codereval-driver", overlay=True)


@dataclasses.dataclass(frozen=True)
class CommandLine:
    """What a session gives to all tasks: options, and the default agent of the ini file.

    Paths in `settings` are relative to `folder`. `driver` may be `auto`.
    """

    settings: tuple[Setting, ...] = ()
    agent: str | None = None
    default_agent: str | None = None
    model: str | None = None
    driver: str | None = None
    folder: Path = Path()

    def is_empty(self) -> bool:
        """Whether it says nothing of a task."""
        return not (self.settings or self.agent or self.default_agent or self.model or self.driver)


NOTHING_GIVEN = CommandLine()


@dataclasses.dataclass(frozen=True)
class Around:
    """The layers around a task's file. `folders` begins with the outermost."""

    experiment: LayerFile[Experiment] | None = None
    folders: tuple[LayerFile[ExperimentDefaults], ...] = ()
    command_line: CommandLine = NOTHING_GIVEN

    def is_empty(self) -> bool:
        """Whether the task's file stands alone."""
        return self.experiment is None and not self.folders and self.command_line.is_empty()

    def variants(self) -> tuple[Variant | None, ...]:
        """The arms under which the task runs; None without an experiment."""
        return self.experiment.content.variants if self.experiment is not None else (None,)


@dataclasses.dataclass(frozen=True)
class Arm:
    """A task under one variant: its merged data, how its prompt is changed, how often it is tried if it does not say.

    `repeats_from` tells where that number came from.
    """

    variant: Variant | None
    merged: Merged
    changes: tuple[Change, ...] = ()
    repeats: int | None = None
    repeats_from: str = ""


def around(task: Path, rootdir: Path | None, experiment: Path | None, command_line: CommandLine) -> Around:
    """Find and read the layers of a task file.

    Defaults are those of its folder and of all folders above it up to `rootdir`; of a task outside of it only those of
    its own. Raises TaskFileError for what is wrong in a layer.
    """
    found = (read_defaults(folder / DEFAULTS_FILE) for folder in _folders(task, rootdir))
    return Around(
        read_experiment(experiment) if experiment is not None else None,
        tuple(each for each in found if each is not None),
        command_line,
    )


def _folders(task: Path, rootdir: Path | None) -> list[Path]:
    folder = task.absolute().parent
    if rootdir is not None and not folder.is_relative_to(rootdir):
        folder, rootdir = folder.resolve(), rootdir.resolve()
    if rootdir is None or not folder.is_relative_to(rootdir):
        return [folder]
    inside = folder.relative_to(rootdir).parts
    return [rootdir.joinpath(*inside[:depth]) for depth in range(len(inside) + 1)]


def arms(file: TaskFile, layers: Around) -> Iterator[Arm]:
    """The task under each variant."""
    for variant in layers.variants():
        yield _Building(file, layers, variant).arm()


class _Building:
    """One arm in the making."""

    def __init__(self, file: TaskFile, layers: Around, variant: Variant | None) -> None:
        assert Task.merging is not None
        self._file, self._layers, self._variant = file, layers, variant
        self._merged = Merged(Task.merging)
        self._folder = file.path.parent
        self._changes: list[Change] = []
        self._repeats: list[tuple[int, Origin]] = []

    def arm(self) -> Arm:
        """Merge all layers, the lowest first."""
        experiment = self._layers.experiment
        if experiment is not None and experiment.content.defaults is not None:
            layer = Layer("{place} defaults", experiment.shown, experiment.document, overlay=True)
            self._put_file(layer, experiment, experiment.content.defaults, ("defaults",))
        for each in self._layers.folders:
            self._put_file(Layer("{place}", each.shown, each.document), each, each.content, ())
        own = Layer("{place}", self._file.shown, self._file.document, is_task=True)
        make_room(self._merged, self._file.data.get("agent"))
        self._merged.put(self._file.data, Origin(own, ()))
        if experiment is not None and self._variant is not None:
            self._put_variant(experiment, self._variant)
        self._put_command_line(self._layers.command_line)
        self._note_changes()
        repeats, told = self._chosen_repeats()
        return Arm(self._variant, self._merged, tuple(self._changes), repeats, told)

    def _chosen_repeats(self) -> tuple[int | None, str]:
        """The number of the highest layer that gives one, and where it stands."""
        if not self._repeats:
            return None, ""
        number, origin = self._repeats[-1]
        return number, origin.layer.describe(origin.location)

    def _put_variant(self, experiment: LayerFile[Experiment], variant: Variant) -> None:
        base: Location = ("variants", experiment.content.variants.index(variant))
        told = f"variant {variant.variant_id} ({{place}})"
        layer = Layer(told, experiment.shown, experiment.document, overlay=True)
        self._put_file(layer, experiment, variant, base)
        if variant.initial_prompt is not None or variant.initial_prompt_file is not None:
            self._changes.clear()

    def _put_file(self, layer: Layer, file: LayerFile[Any], model: LayerModel, base: Location) -> None:
        data: Any = file.document.data
        for part in base:
            data = data[part]
        for key in sorted(data, key=lambda key: key not in _ORDER):
            if key in _WITHOUT_TARGET or data[key] is None:
                continue
            target = _TARGETS.get(key, (key,))
            value = relocated(data[key], target, file.path.parent, self._folder)
            if key == "agent":
                make_room(self._merged, value)
            self._merged.put(value, Origin(layer, (*base, key)), target)
        for index, mutation in enumerate(model.prompt_mutations or ()):
            self._changes.append(Change(mutation, Origin(layer, (*base, "prompt_mutations", index))))
        if model.repeats is not None:
            self._repeats.append((model.repeats, Origin(layer, (*base, "repeats"))))

    def _put_command_line(self, given: CommandLine) -> None:
        override(self._merged, given.agent)
        for setting in given.settings:
            layer = Layer(OPTION, f"{OPTION} {setting.dotted}", overlay=True)
            value = relocated(setting.value, setting.path, given.folder, self._folder)
            self._merged.put(value, Origin(layer, ()), setting.path)
        block = self._merged.data.get("agent")
        is_none = isinstance(block, dict) and block.get("type") == "none"
        if given.model is not None and not is_none and (block is None or isinstance(block, dict)):
            self._merged.put(given.model, Origin(FROM_MODEL, ()), ("agent", "model"))
        if given.driver is not None and given.driver != "auto":
            self._merged.put(given.driver, Origin(FROM_DRIVER, ()), ("sandbox", "driver"))
        elif given.driver is not None:
            self._merged.notes["sandbox.driver"] = "--codereval-driver: auto"
        settle(self._merged, given.agent, given.default_agent)
        if is_none:
            self._drop_prompts_of_layers()

    def _drop_prompts_of_layers(self) -> None:
        """With the agent none nobody reads a prompt: what a variant gives for all tasks is not meant for this one."""
        self._changes = []
        for key in ("initial_prompt", "initial_prompt_file"):
            origin = self._merged.origin_of((key,)) if key in self._merged.data else None
            if origin is not None and not origin.layer.is_task:
                told = origin.layer.describe(origin.location)
                self._merged.drop((key,))
                self._merged.notes[key] = f"left out ({told}): with agent type none nobody reads a prompt"

    def _note_changes(self) -> None:
        data = self._merged.data
        if data.get("initial_prompt") is None and data.get("initial_prompt_file") is None:
            self._changes = []
        if self._changes:
            self._merged.notes["initial_prompt"] = f"changed by {', '.join(change.told() for change in self._changes)}"
