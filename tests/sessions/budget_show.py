"""Eight trials, two workers, a budget that ends half-way: `python -m tests.sessions.budget_show` prints the sums."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from ..fakes import FakeAnthropic, call, say
from .models import AGENT, OPTIONS, cost

BUDGET = "0.20"
TRIALS = 8
LEFT_OUT = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:benchmark")
RUN = ("-n2", "--codereval-run-dir=run", "--junitxml=junit.xml", "-rs")


@dataclasses.dataclass(frozen=True)
class Shown:
    """What a session left. Sums are US dollars; `junit` has what became of each task there."""

    exit_status: int
    output: str
    records: Sequence[dict[str, Any]]
    junit: dict[str, str]
    fake: Decimal
    ledger: Decimal
    in_records: Decimal
    terminal: Decimal

    def with_status(self, status: str) -> list[dict[str, Any]]:
        return [record for record in self.records if record["status"] == status]


def eight_trials(folder: Path, *options: str) -> Shown:
    """Run the session in an empty folder."""
    for number in range(1, TRIALS + 1):
        task = {
            "task_id": f"task-{number}",
            "description": "writes a file",
            "initial_prompt": f"write a.txt, number {number}",
            "agent": AGENT,
            "success_criteria": [{"type": "file_exists", "description": "it is there", "path": "a.txt"}],
        }
        (folder / f"task-{number}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    script = [call("Bash", command="echo x > a.txt"), say("done")]
    with FakeAnthropic(script, script_per_conversation=True) as fake:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *LEFT_OUT, *RUN, *OPTIONS, f"--codereval-budget-usd={BUDGET}", *options],
            cwd=folder,
            env={**_without_keys(), "ANTHROPIC_API_KEY": "fake-key", "ANTHROPIC_BASE_URL": fake.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        charged = cost(fake.ledger)
    records = [json.loads(path.read_text()) for path in sorted((folder / "run" / "trials").glob("*/*/record.json"))]
    lines = (folder / "run" / "shared" / "ledger.jsonl").read_text().splitlines()
    told = re.search(r"^cost: \$([\d.]+)$", done.stdout, re.MULTILINE)
    return Shown(
        exit_status=done.returncode,
        output=done.stdout,
        records=records,
        junit=_tasks_in(folder / "junit.xml"),
        fake=charged,
        ledger=sum((Decimal(json.loads(line)["usd"]) for line in lines), Decimal()),
        in_records=sum((Decimal(str(record["spending"]["usage"]["cost_usd"] or 0)) for record in records), Decimal()),
        terminal=Decimal(told[1]) if told else Decimal("NaN"),
    )


def _without_keys() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "PYTEST_"))}


def _tasks_in(junit: Path) -> dict[str, str]:
    cases = {str(case.get("name")): case for case in ET.parse(junit).getroot().iter("testcase")}
    return {
        name: next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        for name, case in cases.items()
        if re.fullmatch(r"task-\d", name)
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shown = eight_trials(Path(folder).resolve())
    print(shown.output)
    for record in shown.records:
        print(f"{record['trial']['id']}: {record['status']:14} {record['message']}")
    print(f"exit status {shown.exit_status}, budget ${BUDGET}")
    for name in ("fake", "ledger", "in_records", "terminal"):
        print(f"{name:12} ${getattr(shown, name)}")


if __name__ == "__main__":
    main()
