"""A repository whose trials pass, fail and err as their prompt says: one letter for each repeat."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

AGENT = '''
import os
import re
import signal

import pytest

from pytest_codereval import AgentError, AgentKind, Cause, Message


class Lettered:
    """Writes `good` for p, `bad` for f, fails for e, kills its worker for k; the prompt has a letter a repeat."""

    def start(self, job):
        self.job = job

    def run(self, prompt, deadline):
        found = re.search(r"r([0-9]+)$", self.job.artifacts.parent.name)
        letter = prompt[int(found[1]) - 1 if found else 0]
        if letter == "k":
            os.kill(os.getpid(), signal.SIGKILL)
        if letter == "e":
            raise AgentError(Cause.REFUSED, "as the prompt says")
        self.job.sandbox.write_file("label.txt", b"good" if letter == "p" else b"bad")
        yield Message("assistant", letter)

    def stop(self):
        return ()


def pytest_codereval_agents(config):
    return [AgentKind("lettered", Lettered)]


def pytest_collection_modifyitems(items):
    for item in items:
        if "skip" in item.name:
            item.add_marker(pytest.mark.skip(reason="left out"))
'''
"""The text of a conftest.py."""

LABEL: dict[str, Any] = {
    "type": "classification_match",
    "name": "label",
    "description": "the label",
    "path": "label.txt",
    "expected_label": "good",
    "allowed_labels": ["good", "bad"],
}
GATE_NAMES = ("suite-gate", "repeats-gate")


def suite(name: str, letters: str, minimum: float, row: str = "row", **criterion: Any) -> dict[str, Any]:
    """A task with a row for each letter and a threshold for its accuracy."""
    rows = [{"id": f"{row}{number}" if number else "first", "letter": letter} for number, letter in enumerate(letters)]
    return {
        "task_id": name,
        "description": "a suite",
        "initial_prompt": "${row.letter}",
        "agent": {"type": "lettered"},
        "dataset": {"rows": rows},
        "success_criteria": [LABEL | {"suite_thresholds": {"accuracy": minimum}} | criterion],
    }


def repeated(name: str, letters: str, targets: dict[str, float]) -> dict[str, Any]:
    """A task with a repeat for each letter."""
    return {
        "task_id": name,
        "description": "a group of repeats",
        "initial_prompt": letters,
        "agent": {"type": "lettered"},
        "repeats": {"count": len(letters), "targets": targets},
        "success_criteria": [LABEL],
    }


def write(folder: Path, tasks: Sequence[dict[str, Any]]) -> None:
    """Write the repository: conftest.py and the tasks."""
    (folder / "conftest.py").write_text(AGENT, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for task in tasks:
        (folder / f"{task['task_id']}.yaml").write_text(yaml.safe_dump(task, sort_keys=False), encoding="utf-8")
