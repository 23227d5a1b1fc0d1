"""Reads a run directory back: the records of its trials, with all that criteria look at."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..agents.limits import Stop
from ..criteria.contract import CriterionResult, Verdict
from ..errors import Cause, CoderEvalError
from ..judging.early_stop import Reason
from ..judging.gate import Decision
from ..judging.outcomes import Status
from ..recorder.invocation import Invocation, InvocationLog
from ..recorder.options import Option
from ..sandbox.snapshot import File, Manifest, Skipped
from ..trajectory.checking import checked
from ..trajectory.model import Event, Message, ModelCall, ModelFault, ToolCall, Trajectory, Usage
from .record import read_record

_KINDS: Mapping[str, Any] = {kind.__name__: kind for kind in (ToolCall, Message, ModelCall, ModelFault)}
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
_FOLDERS = ("trials", "active", "shared", "earlier")
_FILES = ("lock", "run.json", "suites.json")


@dataclasses.dataclass(frozen=True)
class TrialKey:
    """Which trial a record is of."""

    task_id: str
    row_id: str | None
    variant: str | None
    repeat: int


class StoredRecord:
    """One record. Every property but `path` and `content` raises CoderEvalError for what makes no sense in it."""

    def __init__(self, path: Path, content: Mapping[str, Any]) -> None:
        self.path = path
        self.content = content

    @property
    def folder(self) -> Path:
        """The trial's folder in the run directory."""
        return self.path.parent

    @functools.cached_property
    def key(self) -> TrialKey:
        """Which trial it is of."""
        with _Reading(self.path, "trial"):
            trial = self.content["trial"]
            key = TrialKey(trial["task_id"], trial["row_id"], trial.get("variant"), trial["repeat"])
            texts = [key.task_id, *(text for text in (key.row_id, key.variant) if text is not None)]
            if not all(isinstance(text, str) for text in texts) or type(key.repeat) is not int:
                raise ValueError(f"{key}")
            return key

    @property
    def item(self) -> str | None:
        """The pytest item that ran it."""
        return self.content["trial"].get("item")  # type: ignore[no-any-return]

    @property
    def status(self) -> Status:
        """How the trial ended."""
        with _Reading(self.path, "status"):
            return Status(self.content["status"])

    @property
    def cause(self) -> Cause | None:
        """Why it ended in error before it was judged."""
        with _Reading(self.path, "cause"):
            return Cause(self.content["cause"]) if self.content["cause"] is not None else None

    @property
    def message(self) -> str:
        """The reason of the status."""
        return str(self.content.get("message") or "")

    @property
    def judged(self) -> bool:
        """Whether its criteria were looked at."""
        return bool(self.content.get("judged", self.content.get("score") is not None))

    @property
    def is_whole(self) -> bool:
        """Whether the trial came to its end: judged, or executed to be judged later. An error did not."""
        return self.cause is None and self.status not in (Status.ERROR, Status.SKIPPED) and self.manifest is not None

    @property
    def decision(self) -> Decision | None:
        """The outcome of the gate, None for a trial that was not judged."""
        if not self.judged:
            return None
        with _Reading(self.path, "score"):
            return Decision(self.status, self.message, self.content.get("score"))

    @functools.cached_property
    def stopped(self) -> Stop | None:
        """The cap at which the agent was stopped."""
        with _Reading(self.path, "stopped"):
            text = self.content.get("stopped")
            return Stop(text) if text is not None else None

    @property
    def early_stop(self) -> Mapping[str, Any] | None:
        """Why and how the agent's run was stopped early."""
        with _Reading(self.path, "early_stop"):
            told = self.content.get("early_stop")
            if told is not None:
                Reason(told["reason"])
                _ = told["armed"], told["criterion"]["name"], told["gate_threshold"] + 0.0, str(told["message"])
            return told

    @functools.cached_property
    def trajectory(self) -> Trajectory | None:
        """What the agent did."""
        with _Reading(self.path, "trajectory"):
            told = self.content["trajectory"]
            if told is None:
                return None
            events = tuple(map(_event, told["events"]))
            return Trajectory(events, Usage(**told["usage"]), int(told["turns"]), int(told["attempt"]))

    @functools.cached_property
    def log(self) -> InvocationLog:
        """The recorded calls."""
        with _Reading(self.path, "invocations"):
            told = self.content["invocations"]
            return InvocationLog(
                invocations=tuple(_invocation(each) for each in told["calls"]),
                recorded_tools=frozenset(told["recorded_tools"]),
                faults=tuple(told["faults"]),
                builtin_tools=frozenset(told["builtin_tools"]),
                options={
                    tool: tuple(Option(tuple(each["names"]), int(each["arity"])) for each in table)
                    for tool, table in told["options"].items()
                },
                unmatched=tuple(told["unmatched"]),
                shim_dir=told["shim_dir"],
                uncovered_tools=frozenset(told["uncovered_tools"]),
            )

    @functools.cached_property
    def manifest(self) -> Manifest | None:
        """What the stored workspace holds, None when the trial was not sealed."""
        with _Reading(self.path, "workspace"):
            told = self.content.get("workspace")
            if told is None:
                return None
            return Manifest(
                tuple(File(**each) for each in told["files"]),
                tuple(told["links"]),
                tuple(Skipped(**each) for each in told["skipped"]),
                bool(told["truncated"]),
                dict(told["folders"]),
                dict(told["rewritten"]),
            )

    @property
    def workspace_root(self) -> str:
        """The path that the agent knew its workspace by."""
        return str(self.content.get("workspace_root") or "")

    @property
    def redacted(self) -> frozenset[str]:
        """The parts of the evidence from which secrets are left out; see `record.redacted`."""
        return frozenset(self.content.get("redacted") or ())

    @property
    def results(self) -> tuple[CriterionResult, ...]:
        """The results of the criteria as they stand in the record."""
        return self._results("criteria")

    @property
    def post_failure(self) -> tuple[CriterionResult, ...]:
        """The diagnosis of a trial whose agent failed."""
        return self._results("post_failure_criteria")

    def check(self) -> None:
        """Look at all of it that is cheap to look at."""
        _ = self.key, self.status, self.cause, self.stopped, self.early_stop, self.manifest
        with _Reading(self.path, "content"):
            _ = self.decision, self.fingerprint_parts, self.redacted
            for key in ("stored", "spending", "simulated_user_spending", "judge_spending"):
                float(((self.content.get(key) or {}).get("usage") or {}).get("cost_usd") or 0)
            if not isinstance(self.item, str | None):
                raise TypeError("its item is no text")

    def _results(self, key: str) -> tuple[CriterionResult, ...]:
        names = {field.name for field in dataclasses.fields(CriterionResult)}
        with _Reading(self.path, key):
            return tuple(
                CriterionResult(
                    **{name: value for name, value in each.items() if name in names and name != "verdict"},
                    verdict=Verdict(each["verdict"]),
                )
                for each in self.content.get(key) or ()
            )

    @property
    def fingerprint_parts(self) -> dict[str, str]:
        """What the trial was of, in named parts."""
        return dict(self.content.get("fingerprint_parts") or {})


class UnreadableRecord(CoderEvalError):
    """`path` is that of a record which cannot be read."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def read(path: Path) -> StoredRecord:
    """Read a record, which must be a file and lie in a folder. Raises UnreadableRecord, CoderEvalError for links."""
    for place in (path, path.parent, path.parent.parent):
        _refuse_link(place)
    try:
        if not path.is_file():
            raise CoderEvalError(f"{path}: not a readable trial record: there is no such file")
        with _Reading(path, "text"):
            record = StoredRecord(path, read_record(path))
        record.check()
    except CoderEvalError as error:
        raise UnreadableRecord(path, str(error)) from None
    return record


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        raise CoderEvalError(f"{path}: a link, which is followed nowhere in a run directory")


def _refuse_odd(run: Path) -> None:
    """What a run directory is made of is no link, which leads elsewhere, and no pipe, for which readers wait."""
    shared = (Path(folder, name) for folder, *names in os.walk(run / "shared") for name in itertools.chain(*names))
    for path in (*(run / name for name in (*_FOLDERS, *_FILES)), *shared):
        _refuse_link(path)
        odd = path.exists() and not (path.is_dir() if path.name in _FOLDERS else path.is_file() or path.is_dir())
        if odd:
            raise CoderEvalError(f"{path}: neither a file nor a folder, as a run directory has it")


def _is_python_test(item: str) -> bool:
    return ".py::" in item


def _is_same_item(stored: StoredRecord, item: str) -> bool:
    """Whether a record is of this item, perhaps told by its path in another root directory."""
    told = stored.item
    return told is not None and (told == item or told.endswith(f"/{item}") or item.endswith(f"/{told}"))


class StoredRun:
    """A run directory that is read. Raises CoderEvalError when it is none."""

    def __init__(self, path: Path) -> None:
        if not (path / "trials").is_dir() and not (path / "lock").is_file():
            raise CoderEvalError(f"{path} holds no run: there is no folder {path / 'trials'}")
        self.path = Path(os.path.realpath(path))
        _refuse_odd(self.path)
        self._by_key: dict[str, dict[TrialKey, list[Path]]] = {}

    def paths(self) -> list[Path]:
        """The records of all trials."""
        return sorted(path for path in (self.path / "trials").glob("*/*/record.json"))

    def find(
        self, key: TrialKey, folder_name: str, item: str | None = None, *, of_others: bool = True
    ) -> StoredRecord | None:
        """The record of a trial; of several, the last one of the pytest item. None when there is none.

        Where the item has none, the only one there is will do. Without `of_others` that is so for items of task files
        alone, however they are called: each Python test has trials of its own. Raises UnreadableRecord when the item
        has none and one that may be its cannot be read, CoderEvalError for links and when several may be meant.
        """
        parent = self.path / "trials" / key.task_id
        found, unreadable = self._read(self._candidates(parent, folder_name), key)
        if not found and unreadable is None:
            found, unreadable = self._read(self._index(key.task_id).get(key, ()), key)
        if item is not None:
            own = [each for each in found if each.item == item] or [each for each in found if _is_same_item(each, item)]
            if own:
                return own[-1]
        if unreadable is not None:
            raise unreadable
        if not of_others and item is not None:
            found = [each for each in found if not (_is_python_test(item) or _is_python_test(each.item or ""))]
        if len({each.item for each in found}) <= 1:
            return found[-1] if found else None
        raise CoderEvalError(
            f"{parent}: {len(found)} records of this trial, none of them of {item or 'a named item'}: which is meant?"
        )

    @staticmethod
    def _read(paths: Iterable[Path], key: TrialKey) -> tuple[list[StoredRecord], UnreadableRecord | None]:
        """The records of a trial, and the first that cannot be read. One that was moved meanwhile is none."""
        found: list[StoredRecord] = []
        unreadable: UnreadableRecord | None = None
        for path in paths:
            try:
                record = read(path)
            except UnreadableRecord as error:
                if os.path.lexists(path):
                    unreadable = unreadable or error
                continue
            if record.key == key:
                found.append(record)
        return found, unreadable

    def _candidates(self, parent: Path, name: str) -> Iterator[Path]:
        """Where `run_directory.new_trial` puts the first and each further run of a trial."""
        for number in range(1, 1000):
            folder = parent / (name if number == 1 else f"{name}.again{number}")
            if not folder.is_dir():
                return
            if os.path.lexists(path := folder / "record.json"):
                yield path

    def _index(self, task_id: str) -> Mapping[TrialKey, list[Path]]:
        if task_id not in self._by_key:
            index: dict[TrialKey, list[Path]] = {}
            for path in sorted((self.path / "trials" / task_id).glob("*/record.json")):
                try:
                    index.setdefault(read(path).key, []).append(path)
                except CoderEvalError:
                    continue
            self._by_key[task_id] = index
        return self._by_key[task_id]


class _Reading:
    """Turns what is wrong with a part of a record into an error that says so."""

    def __init__(self, path: Path, part: str) -> None:
        self._path = path
        self._part = part

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, _MALFORMED):
            raise CoderEvalError(f"{self._path}: its {self._part} is not as a record has it: {error!r}") from None


def _event(data: Mapping[str, Any]) -> Event:
    fields = dict(data)
    kind = _KINDS[fields.pop("kind")]
    if kind is ModelCall:
        fields["usage"] = Usage(**fields["usage"])
    if kind is ModelFault:
        fields["cause"] = Cause(fields["cause"])
    return checked(kind(**fields))


def _invocation(data: Mapping[str, Any]) -> Invocation:
    return Invocation(**{**data, "argv": tuple(data["argv"])})
