"""Which kind of trial an item runs: one that works, or one that is judged again from its record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ..errors import CoderEvalError
from .options import given_run, run_directory, settings

if TYPE_CHECKING:
    from ..again.stored import Settings, StoredTrial
    from ..recorder.answers.handler_files import FindByName
    from ..store.reader import StoredRecord, StoredRun
    from ..task.trials import TrialSpec
    from ..trial import Trial

RUN = pytest.StashKey["StoredRun"]()
SEEN = pytest.StashKey[set[str | None]]()
"""The items that were met in this process: one that comes again, by a plugin that repeats tests, runs."""


def make_trial(
    config: pytest.Config, spec: TrialSpec, handler_by_name: FindByName, item: str | None = None
) -> Trial | StoredTrial:
    """The trial of an item, not begun. `item` names it, and with `#2` and so on its further trials."""
    made: Trial | StoredTrial
    if given_run(config, "regrade") is not None:
        made = _to_judge_again(config, spec, handler_by_name, item)
    elif given_run(config, "resume") is not None and item not in config.stash.get(SEEN, ()):
        made = _to_resume(config, spec, handler_by_name, item)
    else:
        made = _to_run(config, spec, handler_by_name)
    config.stash.setdefault(SEEN, set()).add(item)
    made.item = item
    return made


def _to_run(config: pytest.Config, spec: TrialSpec, handler_by_name: FindByName) -> Trial:
    from ..trial import Trial

    return Trial(spec, settings(config), handler_by_name)


def _to_judge_again(
    config: pytest.Config, spec: TrialSpec, handler_by_name: FindByName, item: str | None
) -> StoredTrial:
    from ..again.stored import StoredTrial
    from ..errors import Cause, TrialError

    run = _stored_run(config)
    stored: StoredRecord | TrialError
    try:
        stored = _found(run, spec, item) or TrialError(
            Cause.EVIDENCE_LOST, f"{run.path} holds no record of {spec.trial_id}"
        )
    except CoderEvalError as error:
        stored = TrialError(Cause.EVIDENCE_LOST, str(error))
    return StoredTrial(spec, _settings(config, run.path), stored, handler_by_name)


def _to_resume(
    config: pytest.Config, spec: TrialSpec, handler_by_name: FindByName, item: str | None
) -> Trial | StoredTrial:
    """The stored trial where it is whole and of the same; else a new one, and the old record lies in `earlier`."""
    from ..again.drift import drift
    from ..again.stored import StoredTrial
    from ..errors import Cause, TrialError
    from ..running.identity import identity
    from ..store.reader import UnreadableRecord

    own, run = settings(config), _stored_run(config)
    try:
        stored = _found(run, spec, item, of_others=False)
    except UnreadableRecord as error:
        told: dict[str, Any] = {"message": str(error)}
        return _again(config, spec, handler_by_name, "record unreadable", told, error.path.parent)
    except CoderEvalError as error:
        lost = TrialError(Cause.EVIDENCE_LOST, str(error))
        return StoredTrial(spec, _settings(config, run.path), lost, handler_by_name)
    if stored is None:
        return _to_run(config, spec, handler_by_name)
    try:
        if not stored.is_whole:
            why = {"cause": stored.cause, "message": stored.message, "spending": stored.content.get("spending")}
            return _again(
                config, spec, handler_by_name, f"it ended in {stored.cause or stored.status}", why, stored.folder
            )
        changed = drift(stored, identity(spec, own.asked, handler_by_name), spec.task)
    except TrialError as error:
        return StoredTrial(spec, _settings(config, run.path), error, handler_by_name)
    if changed and config.getoption("codereval_resume_drifted") == "rerun":
        return _again(config, spec, handler_by_name, f"drifted: {'; '.join(changed)}", {}, stored.folder)
    if changed:
        message = (
            f"the stored trial is not of what would run today: {'; '.join(changed)}. --codereval-resume-drifted=rerun "
            "runs such trials again; --codereval-regrade judges them as they are"
        )
        return StoredTrial(spec, _settings(config, run.path), TrialError(Cause.CONFIGURATION, message), handler_by_name)
    keep = stored.judged or own.execute_only
    return StoredTrial(spec, _settings(config, run.path), stored, handler_by_name, keep=keep)


def _again(
    config: pytest.Config,
    spec: TrialSpec,
    handler_by_name: FindByName,
    reason: str,
    stored: dict[str, Any],
    folder: Path,
) -> Trial:
    aside = run_directory(config).put_trial_aside(folder)
    trial = _to_run(config, spec, handler_by_name)
    trial.rerun_of = {"reason": reason, "record": str(aside / "record.json"), **stored}
    return trial


def _folder_name(spec: TrialSpec) -> str:
    from ..store.run_directory import ONLY_TRIAL

    return spec.label or ONLY_TRIAL


def _found(run: StoredRun, spec: TrialSpec, item: str | None, *, of_others: bool = True) -> StoredRecord | None:
    from ..store.reader import TrialKey

    key = TrialKey(spec.task.task_id, spec.row_id, spec.variant, spec.repeat)
    return run.find(key, _folder_name(spec), item, of_others=of_others)


def _stored_run(config: pytest.Config) -> StoredRun:
    if RUN not in config.stash:
        from ..store.reader import StoredRun

        path = given_run(config, "regrade") or given_run(config, "resume")
        assert path is not None
        config.stash[RUN] = StoredRun(path)
    return config.stash[RUN]


def _settings(config: pytest.Config, run: Path) -> Settings:
    from ..again.stored import Settings

    own = settings(config)
    return Settings(
        run=run,
        run_directory=own.run_directory,
        rootdir=own.rootdir,
        env_passthrough=own.env_passthrough,
        choice=own.choice,
        session=own.session,
        in_place=given_run(config, "resume") is not None,
    )
