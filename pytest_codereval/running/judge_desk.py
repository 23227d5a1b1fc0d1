"""The desk of a trial's judges, and the room that an agent gets which judges: a copy of its own to look around in."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..criteria.judges.desk import JudgeDesk, Room
from ..criteria.judges.material import files_of
from ..sandbox.grading_copy import copy_for_grading
from ..sandbox.ignoring import IgnoreRules
from ..sandbox.workspace import Unreadable, Workspace
from ..store.shelf import Shelf

if TYPE_CHECKING:
    from ..criteria.contract import Evidence
    from ..sandbox.protocol import Sandbox
    from ..task.models import Task
    from .attempt import Plan
    from .judge_accounts import JudgeAccounts

REFERENCE = "_reference"
"""Where the reference lies in the copy."""

STEERING = frozenset({".claude", ".codex", ".mcp.json", REFERENCE})
"""Names that the copy has nowhere: settings and a reference of the agent's, which would steer the judge."""

INSTRUCTIONS = frozenset({"AGENTS.md", "AGENTS.override.md", "CLAUDE.md", "CLAUDE.local.md", "GEMINI.md"})
"""Files that agents take for instructions. In the copy they have another name, so that they are data."""

RENAMED = ".as-data"

LONGEST_PATH = 3000
"""Bytes of a path in the copy. A system call takes 4096, and the agent may have nested folders deeper than that."""


def desk_for(plan: Plan, accounts: JudgeAccounts) -> JudgeDesk:
    """The desk for a trial that runs in this session."""
    never = (plan.spec.path.parent, plan.rootdir, plan.run_directory)
    return make_desk(
        plan.spec.task,
        plan.spec.path.parent,
        accounts,
        folder=plan.folder,
        shared=plan.run_directory / "shared",
        make_sandbox=lambda: plan.make_sandbox(seeded=False),
        never=never,
    )


def make_desk(
    task: Task,
    task_folder: Path,
    accounts: JudgeAccounts,
    *,
    folder: Path | None,
    shared: Path | None,
    make_sandbox: Callable[[], Sandbox] | None,
    never: Collection[Path] = (),
) -> JudgeDesk:
    """The desk for any trial. `folder` takes its transcripts, `shared` is where the run keeps judgements.

    `make_sandbox` gives an empty sandbox for an agent that judges, which links of the workspace must `never` lead out
    of into these places.
    """

    @contextlib.contextmanager
    def room(evidence: Evidence) -> Iterator[Room]:
        assert make_sandbox is not None
        with contextlib.closing(make_sandbox()) as place:
            source = evidence.workspace.root
            copy_for_grading(source, place.workspace, source, never)
            left_out = prepare_copy(place.workspace, evidence.reference, IgnoreRules(task.sandbox.ignore_patterns))
            place.end_preparation()
            yield Room(place, left_out)

    return JudgeDesk(
        task=task,
        task_folder=task_folder,
        accounts=accounts,
        folder=folder,
        shelf=Shelf(shared) if shared is not None else None,
        make_room=room if make_sandbox is not None else None,
    )


def prepare_copy(workspace: Path, reference: Workspace | None, rules: IgnoreRules) -> tuple[str, ...]:
    """Take out of a copy what could steer a judge, all links, and what the `rules` ignore; put the reference into it.

    Returns the paths of what was taken out or renamed.
    """
    left_out: list[str] = []
    for folder, folders, files in os.walk(workspace, topdown=True):
        for name in sorted([*folders, *files]):
            path = Path(folder, name)
            shown = str(path.relative_to(workspace))
            if len(os.fsencode(path)) > LONGEST_PATH:
                left_out.append(f"{shown} (too long a path)")
                remove(path)
            elif path.is_symlink():
                left_out.append(f"{shown} (a link)")
                remove(path)
            elif name in STEERING or rules.ignores(name):
                left_out.append(shown)
                remove(path)
            elif name in INSTRUCTIONS and path.is_file():
                other = _free_name(path)
                left_out.append(f"{shown} (is there as {other.name})")
                path.rename(other)
        folders[:] = [name for name in folders if Path(folder, name).is_dir()]
    if reference is not None:
        copy_reference(reference, workspace / REFERENCE)
    return tuple(sorted(left_out))


def _free_name(path: Path) -> Path:
    while os.path.lexists(path):
        path = path.with_name(path.name + RENAMED)
    return path


def copy_reference(reference: Workspace, target: Path) -> None:
    """Copy the regular files of the reference."""
    target.mkdir()
    for name in files_of(reference):
        copy = target / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(Unreadable):
            copy.write_bytes(reference.read_bytes(name, 1 << 30))


def remove(path: Path) -> None:
    """Remove a file, a link or a whole folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
