"""Which settings are told as others than when a stored trial ran."""

from __future__ import annotations

from pathlib import Path

from pytest_codereval.again.drift import differing_settings
from pytest_codereval.store.record import resolved_task
from pytest_codereval.task.resolution import resolve

TASK = """
task_id: hello
description: writes a greeting
initial_prompt: greet
agent: {type: script, steps: [{say: done}]}
success_criteria: [{type: command_executed, description: it ran, command_pattern: one}]
"""


def test_other_criteria_are_told_of_where_they_stopped_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "hello.yaml"
    path.write_text(TASK)
    then = {"task": {"resolved": resolved_task(resolve(path).loaded.task)}}
    path.write_text(TASK.replace("pattern: one", "pattern: two").replace("prompt: greet", "prompt: hail"))
    now = resolve(path).loaded.task
    assert differing_settings(then, now) == ["initial_prompt"]
    stopped = differing_settings(then | {"early_stop": {"reason": "passed"}}, now)
    assert stopped == ["initial_prompt", "success_criteria[0].command_pattern"]
