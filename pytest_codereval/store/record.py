"""The record of a trial: all that is needed to judge it again without running it again."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..criteria.contract import CriterionResult
from ..errors import CoderEvalError
from ..recorder.invocation import Invocation, InvocationLog
from ..redaction import redact
from ..task.repeat_models import repeats_of
from ..text import wire
from ..trajectory.model import Message, ToolCall, Trajectory

if TYPE_CHECKING:
    from ..sandbox.snapshot import Manifest
    from ..task.models import Task
    from ..task.trials import TrialSpec

FORMAT = "codereval-trial"
VERSION = 1


def describe_trial(spec: TrialSpec, item: str | None = None) -> dict[str, Any]:
    """The part of a record that is known before the trial begins. `item` names the pytest item that runs it."""
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
            "item": item,
            "targets": repeats_of(spec.task)[1],
        },
        "task": {
            "file": str(spec.path),
            "line": spec.line,
            "source": spec.text,
            "resolved": resolved_task(spec.task),
            "lineage": dict(spec.lineage),
        },
    }


def resolved_task(task: Task) -> dict[str, Any]:
    """The task as the record holds it: every setting with its value."""
    return task.model_dump(mode="json")


def digest_of(value: object) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(wire(value), sort_keys=True).encode()).hexdigest()


def fingerprint(parts: Mapping[str, str]) -> str:
    """SHA-256 over all that the result may depend on: task, files, agent, model, driver, versions."""
    return digest_of(parts)


def versions_that_matter() -> dict[str, str]:
    """The versions that are part of a trial's fingerprint."""
    known = versions()
    found = {f"version of {name}": known[name] for name in ("pytest-codereval", "anthropic")}
    return found | {"version of python": ".".join(known["python"].split(".")[:2]), "version of records": str(VERSION)}


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


def redacted(trajectory: Trajectory | None, log: InvocationLog) -> list[str]:
    """The parts of the evidence that the record does not hold as criteria saw them, for secrets are left out.

    `calls` are the recorded invocations, `tools` the agent's tool calls, `answers` its messages.
    """
    found = set()
    last = [event for event in trajectory.events if event.attempt == trajectory.attempt] if trajectory else []
    for event in last:
        if isinstance(event, ToolCall | Message) and _has_secret(event):
            found.add("tools" if isinstance(event, ToolCall) else "answers")
    if any(map(_has_secret, log.invocations)):
        found.add("calls")
    return sorted(found)


def _has_secret(told: ToolCall | Message | Invocation) -> bool:
    return any(redact(text) != text for text in _texts(dataclasses.asdict(told)))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


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
