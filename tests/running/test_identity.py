"""What is part of a trial's fingerprint, and what is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_codereval.recorder.answers.handler_files import no_names
from pytest_codereval.running.identity import Asked, changes, identity
from pytest_codereval.sandbox.choice import Choice
from pytest_codereval.task.resolution import resolve

TASK = """
task_id: hello
description: writes a greeting
initial_prompt: greet
agent: {type: script, steps: [{say: done}]}
sandbox: {template_sources: [{type: template_dir, path: ../common}]}
success_criteria: [{type: file_exists, description: there, path: a.txt}]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in (("tasks/hello.yaml", TASK), ("common/a.txt", "a")):
        path = tmp_path / "first" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "first"


def parts(checkout: Path) -> dict[str, str]:
    (spec,) = resolve(checkout / "tasks" / "hello.yaml").trials
    return identity(spec, Asked(Choice()), no_names)


def test_a_checkout_elsewhere_is_the_same_and_changed_files_beside_the_tasks_are_not(checkout: Path) -> None:
    before = parts(checkout)
    moved = checkout.rename(checkout.with_name("second"))
    (moved / "tasks" / "hello.yaml").write_text(f"# a comment\n{TASK}")
    assert changes(before, parts(moved)) == []
    (moved / "common" / "a.txt").write_text("b")
    assert changes(before, parts(moved)) == ["file ../common changed"]
