"""Resolve all tasks of a folder under each of its experiments: `python -m tests.task.corpus_show FOLDER`.

The folder has `tasks/` and `experiments/`. Prints, for each experiment, how many tasks and trials there are, what is
wrong with the others, and how long `resolve`, the text of `explain` and `pytest --collect-only -q` took.
"""

from __future__ import annotations

import argparse
import collections
import re
import subprocess
import sys
import time
from pathlib import Path

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.experiment_models import read_experiment
from pytest_codereval.task.layering.explanation import explained
from pytest_codereval.task.layering.stack import CommandLine
from pytest_codereval.task.resolution import Asked, resolve

CLAIM = re.compile(r"^(task_id|success_criteria)[ \t]*:", re.MULTILINE)
MOST_SHOWN = 5


def main() -> int:
    """Show all experiments; the exit status is 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--agent", default="claude-code", help="as the runner of the experiments gives it")
    parser.add_argument("--no-pytest", action="store_true", help="leave `pytest --collect-only` out")
    given = parser.parse_args()
    folder = given.folder.resolve()
    tasks = [path for path in sorted(folder.glob("tasks/**/*.yaml")) if CLAIM.search(path.read_text(encoding="utf-8"))]
    print(f"{len(tasks)} task files")
    for experiment in (None, *sorted(folder.glob("experiments/*.yaml"))):
        print(f"\n{experiment.name if experiment else 'no experiment'}")
        if experiment is not None and (problem := _refused(experiment)):
            print(f"  refused: {problem}")
            continue
        _show(folder, tasks, experiment, given.agent)
        if not given.no_pytest:
            _collect(folder, experiment, given.agent)
    return 0


def _refused(experiment: Path) -> str | None:
    try:
        read_experiment(experiment)
    except TaskFileError as error:
        return str(error)
    return None


def _show(folder: Path, tasks: list[Path], experiment: Path | None, agent: str) -> None:
    asked = Asked(experiment=experiment, rootdir=folder, command_line=CommandLine(agent=agent))
    problems: collections.Counter[str] = collections.Counter()
    examples: dict[str, str] = {}
    resolved = []
    begin = time.perf_counter()
    for task in tasks:
        try:
            resolved.append(resolve(task, asked))
        except TaskFileError as error:
            reason = re.sub(r"'[^']*'|\d+", "...", error.problems[0].message)
            problems[reason] += 1
            examples.setdefault(reason, str(error.problems[0]))
    middle = time.perf_counter()
    told = sum(len(arm.lineage) for task in resolved for arm in task.arms)
    length = sum(len(explained(arm.data, arm.lineage)) for task in resolved for arm in task.arms)
    end = time.perf_counter()
    trials = sum(len(task.trials) for task in resolved)
    print(f"  {len(resolved)} tasks, {trials} trials, {sum(problems.values())} tasks refused; {middle - begin:.1f} s")
    print(f"  explained: {length} characters, {told} values from layers; {end - middle:.1f} s")
    for reason, number in problems.most_common(MOST_SHOWN):
        print(f"  {number} x {examples[reason]}")


def _collect(folder: Path, experiment: Path | None, agent: str) -> None:
    options = [f"--codereval-agent={agent}", *([f"--codereval-experiment={experiment}"] if experiment else [])]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
    ]
    begin = time.perf_counter()
    done = subprocess.run([*command, *options, str(folder / "tasks")], capture_output=True, text=True, check=False)
    last = [line for line in done.stdout.splitlines() if line.strip()][-1:] or [done.stderr[-300:]]
    print(f"  --collect-only: exit status {done.returncode}, {last[0]}; {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
