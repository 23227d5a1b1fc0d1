"""Real suites load unchanged, and fast."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.experiment_models import read_experiment
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.trials import expand

from .samples import PATH, criterion, task_text

DOWNSTREAM = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "downstream"
needs_corpus = pytest.mark.skipif(not DOWNSTREAM.is_dir(), reason="the corpus is not here")


@needs_corpus
def test_every_task_of_the_corpus_loads_and_expands() -> None:
    trials, warned = 0, []
    for path in sorted((DOWNSTREAM / "tasks").rglob("*.yaml")):
        loaded = load_task(path)
        trials += len(expand(loaded))
        warned += [warning.key for warning in loaded.warnings]
    assert trials > 2000
    assert set(warned) <= {"max_iterations", "llm_reviewer", "run_limits"}
    assert warned.count("run_limits") == 1


@needs_corpus
def test_every_experiment_of_the_corpus_loads() -> None:
    for path in sorted((DOWNSTREAM / "experiments").glob("*.yaml")):
        if path.name == "skill-comparison-template.yaml":  # its id is a place to fill in
            with pytest.raises(TaskFileError, match="experiment_id"):
                read_experiment(path)
        else:
            assert read_experiment(path).content.variants


def test_a_thousand_files_are_read_in_time() -> None:
    criteria = [
        criterion("file_exists", path="report.json", weight=1.0, pass_threshold=1.0),
        criterion("json_check", path="report.json", assertions=[{"expression": "length(items)", "expected": 3}]),
        criterion("run_command", command="python3 -m pytest -q && echo ok", timeout=30, expected_exit_code=0),
        criterion("command_executed", tool_name="Bash", command_pattern=r"uip\s+agent\s+validate", min_count=1),
        criterion("cli_called", tool="uip", verb="agent validate", flags={"group": {"present": True}}),
        *[criterion("file_contains", path=f"{n}.md", includes=["a", "b"], weight=2.0) for n in range(3)],
        criterion("skill_triggered", skill_name="a", expected_skill="a", weight=2.5),
    ]
    sandbox = {"record_cli": [{"tool": "uip", "exit_code": 0, "stdout": "{}"}], "python": {}}
    limits = {"max_turns": 60, "task_timeout": 900}
    text = task_text(sandbox=sandbox, run_limits=limits, success_criteria=criteria, tags=["smoke", "mode:build"])
    assert len(text.splitlines()) >= 60
    load_task(PATH, text)
    started = time.process_time()
    for _ in range(1000):
        load_task(PATH, text)
    assert time.process_time() - started < 2.4  # about 0.6 on an idle machine
