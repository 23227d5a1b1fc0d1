"""Copies of plugins for an agent: their declared parts by name, and never what would tell it how it is judged."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Cause, TrialError
from ...sandbox.answer_keys import named_answer_keys
from ...sandbox.copying import Destination
from ...sandbox.host_path import host_path
from .plugin_copy import MANIFEST, Budget, KeptOut, PluginCopy, mistake
from .projected import ProjectedPlugin, Projection, Skill

if TYPE_CHECKING:
    from ...sandbox.protocol import Sandbox
    from ...task.agent_models import Plugin
    from ...task.models import Task


def make_projection(task: Task, task_folder: Path, sandbox: Sandbox, keep_out: Iterable[Path] = ()) -> Projection:
    """Copy the plugins of the task's agent into the sandbox, outside the workspace.

    `keep_out` are answer keys, files and folders, beside the task's own folder, reference and dataset. Raises
    TrialError(CONFIGURATION) that names the key of a plugin which cannot be copied.
    """
    if task.agent is None or not task.agent.plugins:
        return Projection()
    from .skill_files import read_skills

    plugins: list[ProjectedPlugin] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="codereval-") as place:
        secret = KeptOut(task_folder, named_answer_keys(task, task_folder), tuple(keep_out))
        for name, folder in project(task.agent.plugins, task_folder, Path(place), secret, notes):
            found, doubts = read_skills(folder)
            notes += doubts
            try:
                there = sandbox.provide(folder, f"plugins/{name}")
            except OSError as error:
                raise TrialError(Cause.SANDBOX, f"the plugin {name} cannot be copied: {error}") from error
            skills = (Skill(file.name, file.description, there / "skills" / file.name, name) for file in found)
            plugins.append(ProjectedPlugin(name, there, tuple(skills)))
    return Projection(tuple(plugins), tuple(notes))


def project(
    plugins: Sequence[Plugin], task_folder: Path, target: Path, secret: KeptOut, notes: list[str]
) -> list[tuple[str, Path]]:
    """Copy each plugin to a folder of its own below `target`; their names and these folders.

    Nothing that is `secret` is copied, nor what lies outside of the plugin: links are looked at by where they lead,
    and files that they name are copied in their place. What is left out for such a
    reason is told in `notes`. A plugin that is named twice is copied once. Raises TrialError(CONFIGURATION).
    """
    budget = Budget()
    names: dict[str, str] = {}
    done: set[str] = set()
    copies = []
    for index, plugin in enumerate(plugins):
        key = f"agent.plugins[{index}].path"
        given = host_path(plugin.path, task_folder, key)
        root = os.path.realpath(given)
        if not Path(root).is_dir():
            raise mistake(key, f"there is no directory {given}")
        if root in done:
            continue
        done.add(root)
        secret.refuse_root(root, key)
        place = target / f"plugin-{index}"
        place.mkdir()
        source = PluginCopy(root, key, secret, budget, place, notes)
        try:
            name, declared = source.copy()
        except OSError as error:
            raise mistake(key, f"{given} cannot be copied: {error}") from error
        if name in names and declared:
            raise mistake(key, f"a plugin of the name {name!r} stands in {names[name]} already")
        name = _unused(name, names)
        names[name] = key
        if not declared:
            manifest = json.dumps({"name": name, "description": f"The skills of {name}"}).encode()
            Destination(place).write(MANIFEST, manifest)
        copies.append((name, place))
    return copies


def _unused(name: str, taken: Collection[str]) -> str:
    number = 2
    unused = name
    while unused in taken:
        unused = f"{name}-{number}"
        number += 1
    return unused
