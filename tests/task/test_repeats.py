"""The key `repeats`: a number, or a number with targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.repeat_models import repeats_of
from pytest_codereval.task.trials import expand

TASK: dict[str, Any] = {
    "task_id": "t",
    "description": "d",
    "initial_prompt": "p",
    "success_criteria": [{"type": "file_exists", "description": "d", "path": "a.txt"}],
}


def text(repeats: Any) -> str:
    return yaml.safe_dump(TASK | {"repeats": repeats})


@pytest.mark.parametrize(
    ("repeats", "expected"),
    [
        (None, (1, {})),
        (3, (3, {})),
        ({"count": 2}, (2, {})),
        ({"count": 5, "targets": {"pass_rate": 0.8, "pass@5": 1, "pass^2": 0}}, (5, None)),
    ],
)
def test_count_and_targets(repeats: Any, expected: Any) -> None:
    loaded = load_task(Path("t.yaml"), text(repeats))
    count, targets = repeats_of(loaded.task)
    assert count == expected[0]
    assert targets == (expected[1] if expected[1] is not None else repeats["targets"])
    assert [spec.label for spec in expand(loaded)] == ([f"r{n}" for n in range(1, count + 1)] if count > 1 else [""])


@pytest.mark.parametrize(
    ("repeats", "said"),
    [
        (0, "expected at least 1, found 0"),
        (True, "expected a number"),
        ("often", "expected a whole number, found 'often'"),
        ({"targets": {"pass_rate": 1}}, "repeats.count"),
        ({"count": 3, "targetts": {}}, "did you mean 'targets'?"),
        ({"count": 3, "targets": {}}, "at least one"),
        ({"count": 3, "targets": {"pass_rat": 1}}, "did you mean 'pass_rate'?"),
        ({"count": 3, "targets": {"pas@3": 1}}, "did you mean 'pass@k'?"),
        ({"count": 3, "targets": {"pass@0": 1}}, "no target is called 'pass@0'"),
        ({"count": 3, "targets": {"pass@4": 1}}, "pass@4 needs at least 4 attempts; count is 3"),
        ({"count": 3, "targets": {"pass_rate": 80}}, "expected at most 1, found 80"),
    ],
)
def test_mistakes_are_told_at_load(repeats: Any, said: str) -> None:
    with pytest.raises(TaskFileError, match=r"^t\.yaml:\d+:\d+: repeats") as caught:
        load_task(Path("t.yaml"), text(repeats))
    assert said in str(caught.value)


def test_the_command_line_replaces_the_count_and_not_the_targets() -> None:
    loaded = load_task(Path("t.yaml"), text({"count": 3, "targets": {"pass@2": 0.5}}))
    assert len(expand(loaded, 2)) == 2
    with pytest.raises(TaskFileError, match="pass@2 needs at least 2 attempts, this session makes 1"):
        expand(loaded, 1)
