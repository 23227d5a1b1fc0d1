"""Which settings are told as others than when a stored trial ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_codereval.again.drift import changed_deciders, differing_settings
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


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("greet", "hail"), []),
        (("it ran", "it has run"), []),
        (("pattern: one", "pattern: two"), ["command_executed-it-ran"]),
        (("pattern: one", "pattern: one, pass_threshold: 0.5"), ["command_executed-it-ran"]),
        (("[{type: command_executed, description: it ran, command_pattern: one}", "["), ["command_executed-it-ran"]),
    ],
)
def test_criteria_that_stopped_the_agent_must_be_there_as_they_were(
    tmp_path: Path, change: tuple[str, str], found: list[str]
) -> None:
    path = tmp_path / "hello.yaml"
    more = ", {type: file_exists, description: other, path: a}]"
    path.write_text(TASK.replace("pattern: one}]", "pattern: one}" + more))
    then = {
        "task": {"resolved": resolved_task(resolve(path).loaded.task)},
        "criteria": [{"index": 0, "name": "command_executed-it-ran"}, {"index": 1, "name": "file_exists-other"}],
        "early_stop": {"armed": ["command_executed-it-ran"]},
    }
    path.write_text(path.read_text().replace(*change).replace("[, ", "["))
    assert changed_deciders(then, resolve(path).loaded.task) == found
    assert changed_deciders(then | {"early_stop": None}, resolve(path).loaded.task) == []
