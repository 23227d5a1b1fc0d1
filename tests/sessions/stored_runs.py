"""Sessions over tasks with a model that a fake plays, for runs that are stored, resumed and judged again."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ..fakes import FakeAnthropic, Request, call, say
from ..fakes.turns import Entry
from .models import AGENT, OPTIONS, first_prompt

LEFT_OUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:benchmark")
WORK, END = call("Bash", command="echo x > a.txt; uip login"), say("done")
LONGEST = 1200.0
"""Seconds for a whole session."""


def write_tasks(folder: Path, trials: int, rows: int) -> None:
    """`trials` trials in tasks of `rows` rows each; every fifth fails by its criteria."""
    for number in range(trials // rows):
        task = {
            "task_id": f"task-{number}",
            "description": "writes a file",
            "initial_prompt": f"write a.txt, {number}-${{row.n}}",
            "agent": AGENT,
            "dataset": {"rows": [{"id": f"row-{n}", "n": n, "text": "x" if n % 5 else "y"} for n in range(rows)]},
            "sandbox": {"record_cli": [{"tool": "uip", "stdout": "ok"}]},
            "success_criteria": [
                {"type": "file_contains", "description": "its text", "path": "a.txt", "includes": ["${row.text}"]},
                {"type": "run_command", "description": "a grader", "command": "test -s a.txt"},
                {"type": "command_executed", "description": "what was run", "command_pattern": "echo x"},
                {"type": "cli_called", "description": "the call", "tool": "uip", "verb": "login"},
            ],
        }
        (folder / f"task-{number}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")


def fake_model() -> FakeAnthropic:
    """The model: each conversation writes a file and ends."""
    return FakeAnthropic([_next], loop=True)


def _next(request: Request) -> Entry:
    return WORK if len(request.body["messages"]) == 1 else END


def conversations(fake: FakeAnthropic) -> dict[str, int]:
    """How often each prompt was asked for the first time."""
    found: dict[str, int] = {}
    for request in list(fake.requests):
        if len(request.body.get("messages", ())) == 1:
            prompt = first_prompt(request)
            found[prompt] = found.get(prompt, 0) + 1
    return found


def session(folder: Path, fake: FakeAnthropic, *options: str) -> tuple[int, str]:
    """Run pytest over the folder; its exit status and output."""
    done = subprocess.run(
        _command(options), cwd=folder, env=_environment(fake), stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=LONGEST,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def session_killed(folder: Path, fake: FakeAnthropic, run: Path, records: int, *options: str) -> None:
    """Run pytest, and kill it with all its workers by SIGKILL as soon as there are so many records."""
    running = subprocess.Popen(
        _command(options), cwd=folder, env=_environment(fake), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + LONGEST
    try:
        while len(record_paths(run)) < records:
            assert running.poll() is None, "the session ended before it was killed"
            assert time.monotonic() < deadline, "the session takes too long"
            time.sleep(0.01)
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()


def _command(options: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *LEFT_OUT, *OPTIONS, "-q", *options]


def _environment(fake: FakeAnthropic) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "PYTEST_"))}
    return {**own, "ANTHROPIC_API_KEY": "fake-key", "ANTHROPIC_BASE_URL": fake.url}


def record_paths(run: Path) -> list[Path]:
    """The records of a run."""
    return sorted(run.glob("trials/*/*/record.json"))


def read_records(run: Path) -> dict[str, dict[str, Any]]:
    """The records of a run by trial."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in record_paths(run)]
    return {record["trial"]["id"]: record for record in found}


def verdicts(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Status and verdicts with scores, reasons and details, by trial."""
    names = ("name", "verdict", "score", "reason", "details", "label")
    return {
        trial: (record["status"], [[each[name] for name in names] for each in record["criteria"]])
        for trial, record in records.items()
    }


@dataclasses.dataclass(frozen=True)
class Asked:
    """What the fake was asked at some time."""

    calls: int
    charged: int

    @classmethod
    def of(cls, fake: FakeAnthropic) -> Asked:
        """Until now."""
        return cls(len(fake.requests), len(fake.ledger))
