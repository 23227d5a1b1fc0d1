"""The run directory of one session: locked while it is written, one folder per trial, one atomic record in each.

run.json                    what the session was and how it ended
suites.json                 its gates: suites and groups of repeats, with what each came to
trials/TASK-ID/LABEL/       record.json and the workspace as it was sealed
active/                     trials that have begun and not yet ended
shared/                     what the workers tell each other: what was spent, who asks which provider
earlier/                    runs that used this directory before, and trials that ran again when it was resumed
"""

from __future__ import annotations

import dataclasses
import fcntl
import itertools
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from .. import clock
from ..errors import CoderEvalError
from ..leaks.needles import planted
from ..redaction import redact
from ..text import wire
from ..trajectory.model import Usage
from ..trajectory.spending import Spending
from . import ledger

FORMAT = "codereval-run"
SUITES_FORMAT = "codereval-suites"
OWN_NAMES = frozenset({"lock", "run.json", "suites.json", "trials", "active", "shared", "earlier"})

OF_SESSION = ("run.json", "suites.json")
OF_RUN = (*OF_SESSION, "trials", "active", "shared")

ONLY_TRIAL = "trial"
"""Folder name of a trial that has no label, being the only one of its task."""


class RunDirectory:
    """The controller claims it; workers use the same path without claiming."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: int | None = None

    def claim(self, *, resumed: bool = False) -> None:
        """Make the directory and lock it against other sessions; move what an earlier session left to `earlier/`.

        Of a run that is `resumed` the trials stay, and what was spent. Raises CoderEvalError when another session uses
        it or it cannot be made.
        """
        if self._lock is not None:
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._refuse_foreign()
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CoderEvalError(f"the run directory {self.path} cannot be used: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise CoderEvalError(f"the run directory {self.path} is in use by another session") from None
        self._lock = lock
        list(self.close_active())
        self._put_aside(OF_SESSION if resumed else OF_RUN)

    def _refuse_foreign(self) -> None:
        """A directory that holds something else is no run directory: nothing of it may be moved."""
        names = {entry.name for entry in self.path.iterdir()}
        if names <= OWN_NAMES:
            return
        try:
            session = json.loads((self.path / "run.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            session = None
        if not isinstance(session, dict) or session.get("format") != FORMAT:
            raise CoderEvalError(f"{self.path} is not empty and holds no run; choose an empty or a new run directory")

    def release(self) -> None:
        """Let another session use the directory."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _put_aside(self, names: Sequence[str]) -> None:
        left = [self.path / name for name in names if (self.path / name).exists()]
        if not left:
            return
        aside = self.path / "earlier" / f"{clock.isoformat(clock.now())[:19].replace(':', '')}-{secrets.token_hex(3)}"
        aside.mkdir(parents=True)
        for path in left:
            path.rename(aside / path.name)

    def put_trial_aside(self, folder: Path) -> Path:
        """Move the folder of a trial that runs again to `earlier/trials`; where it lies then."""
        aside = self.path / "earlier" / "trials" / folder.parent.name / f"{folder.name}-{secrets.token_hex(3)}"
        aside.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(aside)
        return aside

    def write_session(self, summary: Mapping[str, object]) -> None:
        """Write run.json: what the session was and how it ended."""
        write_json(self.path / "run.json", {"format": FORMAT, "version": 1} | dict(summary))

    def write_suites(self, results: Mapping[str, object]) -> None:
        """Write suites.json: aggregates and checks of suites and of groups of repeats."""
        write_json(self.path / "suites.json", {"format": SUITES_FORMAT, "version": 1} | dict(results))

    def new_trial(self, task_id: str, label: str) -> Path:
        """Make the folder of a trial; a further run of the same trial in this session gets one of its own."""
        parent = self.path / "trials" / task_id
        parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 1000):
            folder = parent / ((label or ONLY_TRIAL) + ("" if attempt == 1 else f".again{attempt}"))
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            return folder
        raise CoderEvalError(f"too many runs of one trial in {parent}")

    @property
    def shared(self) -> Path:
        """The folder of what the workers tell each other; made when first asked for."""
        folder = self.path / "shared"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def canary(self) -> str:
        """The canary that stands in the records of this run; made when first asked for."""
        return planted(self.shared)

    def mark_active(self, folder: Path, record: Mapping[str, object]) -> Path:
        """Note that a trial has begun, with the record that stands for it should its process die."""
        active = self.path / "active"
        active.mkdir(exist_ok=True)
        mark = active / f"{secrets.token_hex(8)}.json"
        begins = ledger.size(self.path / "shared")
        write_json(mark, {"folder": str(folder.relative_to(self.path)), "record": record, "ledger": begins})
        return mark

    def close_active(self) -> Iterator[tuple[Path, dict[str, object]]]:
        """Write the standing record of each trial whose process died without one; yield folder and record."""
        for mark in sorted((self.path / "active").glob("*.json")):
            try:
                content = json.loads(mark.read_text(encoding="utf-8"))
                folder = self._trial_folder(content["folder"])
                dict(content["record"]["trial"])
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                mark.rename(mark.with_suffix(".unreadable"))
                continue
            if not (folder / "record.json").exists():
                folder.mkdir(parents=True, exist_ok=True)
                record = content["record"] | self._spending_of(content)
                write_json(folder / "record.json", record)
                yield folder, record
            mark.unlink()

    def _trial_folder(self, name: str) -> Path:
        """The folder of a trial by its name in this directory. Raises ValueError for any other place."""
        folder = self.path / name
        inside = Path(os.path.realpath(self.path)) / name
        if Path(name).parts[:1] != ("trials",) or ".." in Path(name).parts or os.path.realpath(folder) != str(inside):
            raise ValueError(f"{name!r} is no folder of a trial")
        return folder

    def _spending_of(self, mark: Mapping[str, Any]) -> dict[str, object]:
        """What the ledger tells of a trial that died; there may be calls that it did not come to enter."""
        trial = mark["record"].get("trial", {}).get("id")
        entered = ledger.entered(self.path / "shared", trial, mark.get("ledger", 0))
        return {
            "spending": _at_least(entered["agent"]),
            "simulated_user_spending": _at_least(entered["simulated user"]),
            "judge_spending": _at_least(entered["judge"]),
        }


def is_in_use(path: Path) -> bool:
    """Whether a session has claimed the run directory and still lives."""
    try:
        lock = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


def _at_least(amounts: Sequence[Decimal]) -> dict[str, object]:
    usage = Usage(cost_usd=float(sum(amounts)) if amounts else None)
    return dataclasses.asdict(Spending(usage, len(amounts), tokens_complete=False, cost_complete=False))


def write_json(path: Path, content: object) -> None:
    """Write `content` as JSON in ASCII, whole or not at all, without secrets.

    Nothing else is lost: a lone surrogate stays what it was.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        partial.write_text(json.dumps(without_secrets(content), default=wire, allow_nan=False), encoding="ascii")
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def without_secrets(value: object) -> object:
    """The same plain data with every secret in its texts replaced, keys too; numbers that JSON lacks as text."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        found: dict[object, object] = {}
        for key, item in value.items():
            found[_free_key(key, value, found)] = without_secrets(item)
        return found
    if isinstance(value, list | tuple):
        return [without_secrets(item) for item in value]
    return value


def _free_key(key: object, *taken: Mapping[object, object]) -> object:
    """The key without secrets; keys that are alike then are told apart by a number."""
    if not isinstance(key, str) or (shown := redact(key)) == key:
        return key
    names = itertools.chain([shown], (f"{shown}#{number}" for number in itertools.count(2)))
    return next(name for name in names if not any(name in others for others in taken))
