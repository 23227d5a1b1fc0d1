"""What a run came to, read from its run directory: the one model behind Markdown, HTML and comparisons."""

from __future__ import annotations

import dataclasses
import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CoderEvalError
from ..judging.metrics import wilson
from ..judging.outcomes import OUTCOMES, Status, pass_rate

SUITES = "suites.json"
UNFINISHED = "The session did not come to its end: trials may be missing."
STOPPED = (2, 3, 4)
"""Exit statuses of pytest that say that not all was run."""


@dataclasses.dataclass(frozen=True)
class TrialReport:
    """One trial. `duration` is in seconds from its start to its last mark, None when it did not come to an end.

    `record` is the whole record as plain data, `folder` where it lies.
    """

    summary: Mapping[str, Any]
    record: Mapping[str, Any]
    folder: Path
    duration: float | None

    @property
    def status(self) -> Status:
        return Status(self.summary["status"])

    @property
    def variant(self) -> str:
        """The variant's id, or an empty text."""
        return self.summary["variant"] or ""

    @property
    def case(self) -> tuple[str, str, int]:
        """What two variants or two runs have in common: task, row, repeat."""
        return self.summary["task_id"], self.summary["row_id"] or "", self.summary["repeat"]

    @property
    def turns(self) -> int | None:
        trajectory = self.record.get("trajectory")
        return trajectory["turns"] if trajectory else None


@dataclasses.dataclass(frozen=True)
class Figures:
    """What some trials came to. Rates and scores lie in 0..1; None where nothing was measured.

    `pass_rate` is passed / (passed + failed + error), `interval` its 95 % interval by Wilson. Means are over those
    trials of which the value is known. `cost_usd` is the sum of what is known to have been spent; the true sum is
    larger unless `cost_complete`.
    """

    statuses: Mapping[Status, int]
    pass_rate: float | None
    interval: tuple[float, float]
    mean_score: float | None
    cost_usd: float
    cost_complete: bool
    mean_duration: float | None
    mean_turns: float | None
    mean_tokens: float | None

    @property
    def trials(self) -> int:
        return sum(self.statuses.values())


@dataclasses.dataclass(frozen=True)
class RunReport:
    """One run. `session` is what run.json says, None when the session did not come to its end.

    `gates` are those of suites.json that have a threshold or target. `unreadable` names files that could not be read.
    """

    path: Path
    session: Mapping[str, Any] | None
    trials: tuple[TrialReport, ...]
    gates: tuple[Mapping[str, Any], ...]
    unreadable: tuple[str, ...]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why the trials may not be all that were to run, one line each."""
        if self.session is None:
            return (UNFINISHED, *self.unreadable)
        status, missing = self.session.get("exit_status"), self.session.get("not_reported") or ()
        said = [f"The session was stopped or failed: exit status {status}."] if status in STOPPED else []
        if missing:
            said.append(f"{len(missing)} of {self.session.get('collected')} collected items never reported.")
        return (*said, *map(str, self.session.get("messages") or ()), *self.unreadable)

    @property
    def variants(self) -> tuple[str, ...]:
        """The variants in the order of their names; one empty text where there are none."""
        return tuple(sorted({trial.variant for trial in self.trials})) or ("",)

    def of_variant(self, variant: str) -> tuple[TrialReport, ...]:
        """The trials of one variant."""
        return tuple(trial for trial in self.trials if trial.variant == variant)


def read_run(path: Path) -> RunReport:
    """Read a run directory. Raises CoderEvalError when it is none, or holds no readable record."""
    from ..store.reader import StoredRun, read
    from ..store.summary import summary_of

    run = StoredRun(path)
    trials, unreadable = [], []
    for place in run.paths():
        try:
            stored = read(place)
            _ = stored.results, stored.post_failure
            summary = summary_of(stored.content, place.parent)
            trials.append(TrialReport(summary, stored.content, place.parent, _duration(stored.content)))
        except (CoderEvalError, KeyError, TypeError, ValueError, AttributeError) as error:
            unreadable.append(f"{place.relative_to(run.path)}: {error}")
    if not trials and not unreadable:
        raise CoderEvalError(f"{path}: the run has no record of any trial")
    gates: tuple[Mapping[str, Any], ...] = ()
    try:
        gates = _gates(run.path)
    except (KeyError, TypeError, ValueError) as error:
        unreadable.append(f"{SUITES}: {error!r:.200}")
    trials.sort(key=lambda trial: (trial.summary["trial"], _started(trial.record)))
    return RunReport(run.path, _json(run.path / "run.json"), tuple(trials), gates, tuple(unreadable))


def figures(trials: Sequence[TrialReport]) -> Figures:
    """What these trials came to."""
    statuses = Counter(trial.status for trial in trials)
    measured = sum(statuses[status] for status, outcome in OUTCOMES.items() if outcome.in_rate)
    begun = [trial.summary for trial in trials if trial.status is not Status.SKIPPED]
    return Figures(
        statuses=statuses,
        pass_rate=pass_rate(statuses),
        interval=wilson(statuses[Status.PASSED], measured),
        mean_score=_mean(trial.summary["score"] for trial in trials),
        cost_usd=math.fsum(summary["cost_usd"] or 0 for summary in begun),
        cost_complete=all(summary["cost_complete"] for summary in begun),
        mean_duration=_mean(trial.duration for trial in trials),
        mean_turns=_mean(trial.turns for trial in trials),
        mean_tokens=_mean(trial.summary["tokens"] for trial in trials),
    )


def _mean(values: Iterable[float | int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _started(record: Mapping[str, Any]) -> float:
    return float((record.get("times") or {}).get("started") or 0.0)


def _duration(record: Mapping[str, Any]) -> float | None:
    times = record.get("times") or {}
    return max(times.values()) - times["started"] if "started" in times and "finished" in times else None


def _gates(run: Path) -> tuple[Mapping[str, Any], ...]:
    """Raises KeyError, TypeError or ValueError for a file that is not as it was written."""
    if not (run / SUITES).exists():
        return ()
    content = _json(run / SUITES)
    if content is None:
        raise ValueError("it is no JSON object")
    return tuple(gate for key in ("suites", "repeats") for gate in content.get(key) or () if gate["gate"] is not None)


def _json(path: Path) -> Mapping[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None
