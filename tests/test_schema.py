"""The JSON Schema of the format says what the loader says, and `schema` and `lint` know the types of plugins."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.task.json_schema import ROOTS, schema_of
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.yaml_reader import read, read_text

from .criteria.test_own_types import CONFTEST, line_count
from .plugin.conftest import Repo, repo
from .task.samples import EXISTS, task_data, task_text
from .task.test_criteria_models import MINIMAL, TASK

__all__ = ["repo"]

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "example_tasks").rglob("*.yaml"))


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema_of("task"))


def data_of(path: Path) -> Any:
    return read(read_text(path)).data


@pytest.mark.parametrize("kind", ROOTS)
def test_each_schema_follows_its_own_draft(kind: str) -> None:
    schema = schema_of(kind)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest_codereval", *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_every_example_task_is_valid_by_the_schema_of_its_project() -> None:
    done = command(ROOT, "schema", "task", "example_tasks")
    assert (done.returncode, done.stderr) == (0, "")
    validator = Draft202012Validator(json.loads(done.stdout))
    tasks = [path for path in EXAMPLES if "success_criteria" in (data_of(path) or {})]
    assert "own_criterion.yaml" in [path.name for path in tasks]
    wrong = {path.name: [error.message for error in validator.iter_errors(data_of(path))] for path in tasks}
    assert {name: found for name, found in wrong.items() if found} == {}


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from mappings(item)


def test_a_key_that_the_loader_refuses_is_refused_and_no_other(validator: Draft202012Validator) -> None:
    """A key put into each mapping of the examples in turn: some mappings are free, such as environment variables."""
    refused = free = 0
    for path in EXAMPLES:
        whole = data_of(path)
        if "success_criteria" not in (whole or {}) or "dataset" in whole:
            continue
        for number in range(0, len(list(mappings(whole))), 4):
            data = copy.deepcopy(whole)
            list(mappings(data))[number]["mistyped"] = "text"
            try:
                load_task(path, yaml.safe_dump(data, sort_keys=False))
                problem = None
            except CoderEvalError as error:
                problem = str(error)
            unknown = problem is not None and "unknown key 'mistyped'" in problem
            refused, free = refused + unknown, free + (not unknown)
            if unknown or problem is None:
                assert validator.is_valid(data) != unknown, (path.name, number, problem)
    assert refused > 50
    assert free > 0


@pytest.mark.parametrize("kind", sorted(MINIMAL))
def test_each_type_is_valid_at_its_least_and_strict_about_the_rest(kind: str, validator: Draft202012Validator) -> None:
    plain = {"type": kind, "description": "d", **MINIMAL[kind]}

    def valid(**changes: Any) -> bool:
        criterion = {key: value for key, value in {**plain, **changes}.items() if value is not ...}
        return validator.is_valid(task_data(success_criteria=[EXISTS, criterion], **TASK))

    assert valid()
    assert valid(weight=0, pass_threshold=0.5, name="n", enabled=False)
    assert not valid(wieght=1)
    assert not valid(weight=-1)
    assert not valid(pass_threshold=2)
    assert not valid(enabled="no")
    assert not valid(description=...)
    assert not valid(type=...)
    assert not valid(type="none_such")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"agent": {"type": "claude-code", "additional_ignore_patterns": ["x"]}}, True),
        ({"agent": {"model": "m"}}, True),
        ({"agent": {"type": "claude"}}, False),
        ({"agent": {"type": "codex", "sdk_options": {}}}, False),
        ({"agent": {"mdoel": "m"}}, False),
        ({"max_iterations": 3}, True),
        ({"skip": "later"}, True),
        ({"tags": "smoke"}, False),
        ({"sandbox": {"docker": {"network": "none"}}}, True),
        ({"sandbox": {"docker": {"network": {"allow": ["a.example:443"]}}}}, True),
        ({"sandbox": {"docker": {"network": "hostile"}}}, False),
        ({"sandbox": {"template_sources": [{"type": "template_dir", "path": "a"}]}}, True),
        ({"sandbox": {"template_sources": [{"type": "template_dir", "url": "a"}]}}, False),
        ({"sandbox": {"record_cli": [{"tool": "uip", "options": {"f": 0, "g": {"arity": 2}}}]}}, True),
        ({"sandbox": {"record_cli": [{"tool": "uip", "options": {"f": "none"}}]}}, False),
        ({"success_criteria": []}, True),
        ({"success_criteria": [{"type": "command_not_executed", "description": "d", "command_pattern": "rm"}]}, True),
        ({"success_criteria": [{"type": "command_not_executed", "description": "d", "path": "rm"}]}, False),
        ({"success_criteria": [{"type": "cli_called", "description": "d", "tool": "t", "exit_code": [0, 3],
                                "flags": {"a": "text", "b": {"present": True}}}]}, True),
        ({"success_criteria": [{"type": "cli_called", "description": "d", "tool": "t", "flags": {"a": 3}}]}, False),
    ],
)  # fmt: skip
def test_short_spellings_and_blocks_by_type(
    changes: dict[str, Any], expected: bool, validator: Draft202012Validator
) -> None:
    assert validator.is_valid(task_data(**changes)) is expected


def test_lint_knows_the_types_of_a_project(repo: Repo) -> None:
    repo.file("conftest.py", CONFTEST)
    own = line_count(at_most=1)
    repo.task("good", success_criteria=[own, {"type": "uipath_eval", "description": "d", **MINIMAL["uipath_eval"]}])
    done = command(repo.path, "lint", "tasks")
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "1 task files: 0 problems, 0 warnings")
    assert not (repo.path / ".codereval").exists()


def test_lint_tells_every_problem_of_every_file_and_runs_nothing(repo: Repo) -> None:
    repo.file("tasks/a.yaml", task_text(task_id="a", description=None, wieght=1))
    repo.file("tasks/deeper/b.yaml", task_text(task_id="b", success_criteria=[line_count()]))
    repo.file("tasks/c.yaml", task_text(task_id="c", max_iterations=3))
    repo.file("tasks/d.yaml", task_text(task_id="c"))
    repo.file("tasks/other.yaml", "key: value\n")
    repo.file("tasks/.hidden/e.yaml", task_text(task_id="e", wieght=1))
    done = command(repo.path, "lint", "tasks")
    assert done.returncode == 1
    lines = done.stdout.strip().splitlines()
    for line, parts in zip(
        lines,
        (
            ("tasks/a.yaml:", "the required key 'description' is missing"),
            ("tasks/a.yaml:", "wieght: unknown key 'wieght'"),
            ("tasks/c.yaml:", "warning: max_iterations: max_iterations is no longer used"),
            ("tasks/d.yaml:", "task_id: 'c' is used by"),
            ("tasks/deeper/b.yaml:", "no criterion has the type 'line_count'"),
            ("4 task files: 4 problems, 1 warnings",),
        ),
        strict=True,
    ):
        assert all(part in line for part in parts), line


def test_lint_of_nothing_is_not_green(repo: Repo) -> None:
    assert command(repo.path, "lint", "tasks").returncode == pytest.ExitCode.NO_TESTS_COLLECTED
