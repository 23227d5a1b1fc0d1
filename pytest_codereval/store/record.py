"""The record of a trial: all that is needed to judge it again without running it again."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..criteria.contract import CriterionResult
from ..errors import CoderEvalError
from ..recorder.invocation import InvocationLog
from ..text import wire
from ..trajectory.model import Trajectory

if TYPE_CHECKING:
    from ..sandbox.snapshot import Manifest
    from ..task.trials import TrialSpec

FORMAT = "codereval-trial"
VERSION = 1


def describe_trial(spec: TrialSpec) -> dict[str, Any]:
    """The part of a record that is known before the trial begins."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "trial": {
            "id": spec.trial_id,
            "task_id": spec.task.task_id,
            "row_id": spec.row_id,
            "row": spec.row,
            "repeat": spec.repeat,
            "repeats": spec.repeats,
            "rows": spec.rows,
            "variant": spec.variant,
            "experiment": spec.experiment,
        },
        "task": {
            "file": str(spec.path),
            "line": spec.line,
            "source": spec.text,
            "resolved": spec.task.model_dump(mode="json"),
            "lineage": dict(spec.lineage),
        },
    }


def fingerprint(
    description: Mapping[str, Any],
    agent: str | None,
    model: str | None,
    driver: str | None,
    digests: Mapping[str, str],
) -> str:
    """SHA-256 over all that the result may depend on: task, agent, model, driver, digests of the material."""
    parts = {
        "task": description["task"]["resolved"],
        "repeat": description["trial"]["repeat"],
        "agent": agent,
        "model": model,
        "driver": driver,
        "digests": digests,
        "version": VERSION,
    }
    return hashlib.sha256(json.dumps(wire(parts), sort_keys=True).encode()).hexdigest()


@functools.cache
def versions() -> dict[str, str]:
    """Versions of what ran the trial."""
    names = ("pytest-codereval", "pytest", "pytest-xdist", "pydantic", "anthropic", "genai-prices")
    found = {"python": platform.python_version(), "platform": platform.platform(), "executable": sys.executable}
    for name in names:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def describe_trajectory(trajectory: Trajectory | None) -> dict[str, object] | None:
    """The trajectory as plain data, its events in order, each with its kind."""
    if trajectory is None:
        return None
    return {
        "events": [{"kind": type(event).__name__, **dataclasses.asdict(event)} for event in trajectory.events],
        "usage": dataclasses.asdict(trajectory.usage),
        "turns": trajectory.turns,
        "attempt": trajectory.attempt,
        "final_answer": trajectory.final_answer,
    }


def describe_invocations(log: InvocationLog) -> dict[str, object]:
    """The recorded calls as plain data."""
    return {
        "recorded_tools": sorted(log.recorded_tools),
        "builtin_tools": sorted(log.builtin_tools),
        "uncovered_tools": sorted(log.uncovered_tools),
        "options": {tool: [dataclasses.asdict(option) for option in table] for tool, table in log.options.items()},
        "calls": [dataclasses.asdict(invocation) for invocation in log.invocations],
        "unmatched": list(log.unmatched),
        "shim_dir": log.shim_dir,
        "faults": list(log.faults),
    }


def describe_graded(manifest: Manifest | None) -> dict[str, object] | None:
    """What of the workspace was graded: how much, and what was left out for which reason. None before grading."""
    if manifest is None:
        return None
    return {
        "files": len(manifest.files),
        "links": len(manifest.links),
        "skipped": [dataclasses.asdict(each) for each in manifest.skipped],
        "truncated": manifest.truncated,
    }


def describe_results(results: Sequence[CriterionResult]) -> list[dict[str, object]]:
    """The criteria's results as plain data."""
    return [result.as_record() for result in results]


def read_record(path: Path) -> dict[str, Any]:
    """Read a record. Raises CoderEvalError when it is no record of a version that this release knows."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CoderEvalError(f"{path}: not a readable trial record: {error}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise CoderEvalError(f"{path}: not a trial record")
    if record.get("version") != VERSION:
        raise CoderEvalError(f"{path}: record version {record.get('version')!r}, expected {VERSION}")
    return record
