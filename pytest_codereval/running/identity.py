"""What a trial is of: all that its result may depend on, in named parts, known before it runs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..agents import registry as agents
from ..errors import TaskFileError, TrialError
from ..leaks.needles import given_paths
from ..recorder.answers.handler_files import FindByName, source_of
from ..sandbox import drivers
from ..sandbox.answer_keys import is_task_file
from ..sandbox.choice import Choice
from ..sandbox.digest import digest
from ..sandbox.host_path import host_path
from ..sandbox.material import TASK_FOLDER, GradingMaterial
from ..store import record as records
from ..task.layering import DEFAULTS_FILE
from ..task.reply_tables import load_table
from ..text import texts_in

if TYPE_CHECKING:
    from ..task.trials import TrialSpec

_LONGEST_PATH = 500


@dataclasses.dataclass(frozen=True)
class Asked:
    """What a session asks of its trials, as far as their results depend on it."""

    choice: Choice
    agent_override: str | None = None
    agent_default: str | None = None
    model_override: str | None = None
    keep_out: Collection[Path] = ()
    """Where the harness itself writes."""


def identity(spec: TrialSpec, asked: Asked, by_name: FindByName) -> dict[str, str]:
    """The named parts of a trial's fingerprint. Raises TrialError for what cannot be had, such as the agent."""
    name = agents.choose(spec.task, override=asked.agent_override, default=asked.agent_default)
    config = agents.config_of(name, spec.task, spec.path.parent)
    order = drivers.Order(
        config=spec.task.sandbox, task_dir=spec.path.parent, image=asked.choice.image, readable=asked.choice.readable
    )
    parts = {
        "task": records.digest_of(records.resolved_task(spec.task)),
        "row": records.digest_of(spec.row),
        "repeat": str(spec.repeat),
        "agent": name,
        "model": asked.model_override or config.model or "",
        "driver": asked.choice.driver_for(order).name,
        "image": asked.choice.image or "",
        **records.versions_that_matter(),
    }
    return parts | dict(_files(spec, asked.keep_out, by_name))


def changes(stored: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of the parts that differ, one text each, with the values where people can read them."""
    found = []
    for name in sorted({*stored, *now}):
        before, after = stored.get(name), now.get(name)
        if before == after:
            continue
        if name in ("task", "row") or name.startswith("file "):
            how = "is new" if before is None else "is gone" if after is None else "changed"
            found.append(f"{name} {how}")
        else:
            found.append(f"{name}: {before or 'none'!r} then, {after or 'none'!r} now")
    return found


def _files(spec: TrialSpec, keep_out: Collection[Path], by_name: FindByName) -> Iterator[tuple[str, str]]:
    folder = spec.path.parent.absolute()
    named = dict.fromkeys([*given_paths(spec.task, folder), *_answers(spec, by_name), *_of_agent(spec)])
    for path in named:
        yield f"file {_shown(path, folder)}", digest(path, exclude=keep_out).sha256
    variables = dict(spec.task.sandbox.env)
    material = GradingMaterial(spec.task, spec.path, _NOWHERE, spec.dataset_paths, keep_out, variables)
    material.hide()
    for name, value in material.digests.items():
        yield f"file {name}", _without_tasks(folder, keep_out) if name == TASK_FOLDER else value


def _shown(path: Path, folder: Path) -> str:
    """How a file is called wherever the checkout lies: by its way from the task's folder where both lie together."""
    together = len(Path(os.path.commonpath([path, folder])).parts) > 1
    return os.path.relpath(path, folder) if together else str(path)


def _without_tasks(folder: Path, keep_out: Collection[Path]) -> str:
    """The digest of the task's folder without task files: its own is part of the fingerprint as it was resolved."""
    tasks = [path for path in folder.iterdir() if path.name == DEFAULTS_FILE or is_task_file(str(path))]
    return digest(folder, exclude=[*keep_out, *tasks]).sha256


_NOWHERE = Path("/nonexistent/codereval")


def _answers(spec: TrialSpec, by_name: FindByName) -> Iterator[Path]:
    for tool in spec.task.sandbox.record_cli or ():
        try:
            table = load_table(tool, spec.path.parent)
        except TaskFileError:
            continue
        yield from (path for path in table.files if path != table.record_to and path.exists())
        for text in {tool.handler, *(rule.response.handler for rule in table.rules)} - {None}:
            if isinstance(text, str) and ":" not in text and (source := _source(text, by_name)) is not None:
                yield source


def _source(name: str, by_name: FindByName) -> Path | None:
    try:
        return source_of(by_name(name))
    except TrialError:
        return None


def _of_agent(spec: TrialSpec) -> Iterator[Path]:
    """Files that the agent's block names relative to the task's folder, such as a record or code of the author."""
    if spec.task.agent is None:
        return
    for text in texts_in(spec.task.agent.model_dump(mode="json", exclude={"steps", "system_prompt"})):
        if not text.strip() or len(text) >= _LONGEST_PATH or "\n" in text:
            continue
        named = text.partition(":")[0] if text.count(".py:") == 1 else text
        if "/" in named or "." in named:
            try:
                path = host_path(named, spec.path.parent.absolute(), "agent")
                if path.is_file():
                    yield path
            except (TrialError, OSError, ValueError):
                continue
