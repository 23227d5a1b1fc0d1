"""`regrade`: judge the stored trials of a run by the criteria in their records, or by those of a task file."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from .. import clock
from ..errors import CoderEvalError, TrialError
from ..text import clean

if TYPE_CHECKING:
    from ..again.stored import StoredTrial
    from ..store.reader import StoredRecord, StoredRun, TrialKey
    from ..task.trials import TrialSpec
    from . import Commands

MOST_LISTED = 20


def add(commands: Commands) -> None:
    """Add the command to the command line."""
    command = commands.add_parser(
        "regrade",
        help="judge the stored trials of a run again",
        description="Judges each trial of a run directory from its record, by the criteria that stand in the record. "
        "No agent runs. The exit status is 0 when all trials passed, else 1. To judge by today's task files with all "
        "options of pytest: pytest tasks/ --codereval-regrade RUN.",
    )
    command.add_argument("run", metavar="RUN", type=Path, help="run directory")
    command.add_argument(
        "--task", metavar="FILE", type=Path, help="judge the trials of this task file, by its criteria"
    )
    command.add_argument("--run-dir", metavar="DIR", type=Path, help="where the new records go (default: beside RUN)")
    command.add_argument(
        "--allow-recorded-commands",
        action="store_true",
        help="run the commands, and ask the judges, that records name, with the sandbox and the files that they name",
    )
    command.set_defaults(carry_out=carry_out)


def carry_out(arguments: argparse.Namespace) -> int:
    """Judge and print a line for each trial. Raises CoderEvalError before anything is judged."""
    from ..again.stored import Settings, StoredTrial
    from ..criteria.registry import use_kinds
    from ..criteria.vendor import KINDS
    from ..redaction import hide_secrets_of
    from ..running.session import Session
    from ..store.reader import StoredRun
    from ..store.run_directory import RunDirectory, is_in_use

    hide_secrets_of(os.environ)
    use_kinds(KINDS)
    run = StoredRun(arguments.run)
    if is_in_use(run.path):
        raise CoderEvalError(f"the run directory {run.path} is in use by a session")
    unreadable: list[str] = []
    found = list(
        _by_task_file(run, arguments.task, unreadable) if arguments.task else _by_records(run, arguments, unreadable)
    )
    if not found and not unreadable:
        raise CoderEvalError(f"{run.path} holds no trial{f' of {arguments.task}' if arguments.task else ''}")
    stamp = clock.isoformat(clock.now())[:19].replace(":", "").replace("-", "")
    target = arguments.run_dir or run.path.with_name(f"{run.path.name}-regraded-{stamp}-{secrets.token_hex(2)}")
    if target.resolve() == run.path:
        raise CoderEvalError(f"{target}: the records that are read are not overwritten")
    directory = RunDirectory(target.resolve())
    directory.claim()
    settings = Settings(run.path, directory, rootdir=Path.cwd(), session=Session(directory.shared))
    counts = Counter({"error": len(unreadable)} if unreadable else {})
    for spec, stored in found:
        trial = StoredTrial(spec, settings, stored)
        fault = _judge(trial)
        status = "error" if fault else str(trial.status)
        counts[status] += 1
        said = next(iter((fault or trial.message).splitlines()), "no message")
        print(clean(f"{spec.trial_id}: {status}{_before(stored, status)}: {said}"))
    for told in unreadable:
        print(clean(f"error: {told}"))
    directory.write_session({"regraded": str(run.path), "trials": dict(counts), "unreadable": unreadable})
    directory.release()
    print(f"{', '.join(f'{number} {status}' for status, number in counts.items())}; records: {directory.path}")
    return 0 if set(counts) == {"passed"} else 1


def _judge(trial: StoredTrial) -> str:
    """Judge the trial, which keeps its fault, and record it; what went wrong with that at the end."""
    try:
        with contextlib.suppress(TrialError):
            trial.execute()
            trial.grade()
    finally:
        fault = _finish(trial)
    return fault


def _finish(trial: StoredTrial) -> str:
    try:
        trial.finish()
    except CoderEvalError as error:
        return str(error)
    return ""


def _before(stored: StoredRecord, status: str) -> str:
    return "" if stored.status == status else f" (was {stored.status})"


def _by_task_file(run: StoredRun, file: Path, unreadable: list[str]) -> Iterator[tuple[TrialSpec, StoredRecord]]:
    from ..again.recorded_task import under_its_name
    from ..store.reader import TrialKey, read
    from ..task.resolution import resolve

    resolved = resolve(file.absolute())
    task_id = resolved.loaded.task.task_id
    known: Mapping[TrialKey, TrialSpec] = {
        TrialKey(task_id, spec.row_id, spec.variant, spec.repeat): spec for spec in resolved.trials
    }
    first = {key.row_id: spec for key, spec in reversed(list(known.items()))}
    for path in run.paths():
        if path.parents[1].name != task_id:
            continue
        try:
            stored = read(path)
        except CoderEvalError as error:
            unreadable.append(str(error))
            continue
        if stored.key.task_id != task_id:
            unreadable.append(f"{path}: it is of the task {stored.key.task_id}, among those of {task_id}")
            continue
        spec = known.get(stored.key) or first.get(stored.key.row_id)
        if spec is None:
            raise CoderEvalError(f"{path}: {file} has no row {stored.key.row_id!r}")
        yield under_its_name(spec, stored), stored


def _by_records(
    run: StoredRun, arguments: argparse.Namespace, unreadable: list[str]
) -> Iterator[tuple[TrialSpec, StoredRecord]]:
    from ..again.recorded_task import recorded_spec, would_execute
    from ..store.reader import read

    allowed = arguments.allow_recorded_commands
    asked: list[str] = []
    found: list[tuple[TrialSpec, StoredRecord]] = []
    for path in run.paths():
        try:
            stored = read(path)
            spec = recorded_spec(stored, trusted=allowed)
        except CoderEvalError as error:
            unreadable.append(str(error))
            continue
        asked += [f"  {spec.trial_id}: {text}" for text in would_execute(spec.task)]
        found.append((spec, stored))
    if asked and not allowed:
        more = [f"  and {len(asked) - MOST_LISTED} more"] if len(asked) > MOST_LISTED else []
        raise CoderEvalError(
            "the records name what would be executed, asked or read; nothing was judged. Give "
            "--allow-recorded-commands when you trust them, or --task FILE to judge by a task file of yours:\n"
            + "\n".join([*asked[:MOST_LISTED], *more])
        )
    yield from found
