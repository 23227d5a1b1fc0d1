"""How long a session takes: collecting 1,000 task files and 100 trivial trials, against a floor of the same run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TASK = """\
task_id: bench-{number:04d}
description: Task number {number} of a benchmark.
tags: [bench, "mode:run"]
initial_prompt: |
  Write the number {number} to out.txt and tell the tool.
agent:
  type: script
  steps:
    - write: {{path: out.txt, content: "{number}\\n"}}
    - bash: mytool push --item {number}
    - say: done
sandbox:
  record_cli:
    - {{tool: mytool, exit_code: 0}}
run_limits:
  max_turns: 20
success_criteria:
  - {{type: file_exists, description: it is there, path: out.txt}}
  - {{type: run_command, description: it is right, command: "grep -q {number} out.txt"}}
  - {{type: cli_called, description: the tool was told, tool: mytool, verb: push}}
"""
FLOOR = """\
import subprocess, pytest
@pytest.mark.parametrize("number", range({count}))
def test_floor(number, tmp_path):
    (tmp_path / "out.txt").write_text(str(number))
    subprocess.run(["bash", "-c", "/bin/true"], check=True)
    subprocess.run(["/bin/sh", "-c", f"grep -q {{number}} out.txt"], check=True, cwd=tmp_path)
"""


def _pytest(folder: Path, *args: str) -> float:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args]
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    elapsed = time.perf_counter() - started
    assert done.returncode == 0, done.stdout + done.stderr
    return elapsed


def _tasks(folder: Path, count: int) -> Path:
    (folder / "tasks").mkdir()
    for number in range(count):
        (folder / "tasks" / f"bench_{number:04d}.yaml").write_text(TASK.format(number=number), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


def test_collect_1000_task_files(benchmark: Any, tmp_path: Path) -> None:
    folder = _tasks(tmp_path, 1000)
    floor = min(_pytest(folder, "--co", "-p", "no:codereval", "--version") for _ in range(3))
    benchmark.pedantic(_pytest, (folder, "tasks", "--co"), rounds=3)
    benchmark.extra_info["floor_start_of_pytest_s"] = round(floor, 3)
    print(f"\n1,000 task files: {benchmark.stats['min']:.2f} s in all; pytest alone starts in {floor:.2f} s")


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_100_trivial_trials(benchmark: Any, tmp_path: Path, workers: str) -> None:
    folder = _tasks(tmp_path, 100)
    (folder / "test_floor.py").write_text(FLOOR.format(count=100))
    (folder / "test_one.py").write_text("def test_one(): pass\n")
    start = min(_pytest(folder, "test_one.py", workers) for _ in range(3))
    floor = min(_pytest(folder, "test_floor.py", workers) for _ in range(3)) - start
    benchmark.pedantic(_pytest, (folder, "tasks", workers), rounds=3)
    trials = benchmark.stats["min"] - start
    benchmark.extra_info.update(trial_ms=round(trials * 10, 2), floor_ms=round(floor * 10, 2))
    print(
        f"\n100 trivial trials {workers}: {trials * 10:.1f} ms a trial; a plain test that starts the same programs "
        f"takes {floor * 10:.1f} ms (ratio {trials / floor:.1f})"
    )


def test_cost_beside_an_unrelated_suite(benchmark: Any, tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text("def test_one(): pass\n")
    without = min(_pytest(tmp_path, "--co", "-p", "no:codereval") for _ in range(10))
    benchmark.pedantic(_pytest, (tmp_path, "--co"), rounds=10)
    added = benchmark.stats["min"] - without
    benchmark.extra_info["added_ms"] = round(added * 1000, 1)
    print(f"\ninstalled beside an unrelated suite: {added * 1000:+.0f} ms on {without * 1000:.0f} ms")
