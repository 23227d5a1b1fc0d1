"""A repository with task files, made anew for each test."""

from __future__ import annotations

import json
import textwrap
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

HELLO: dict[str, Any] = {
    "task_id": "hello",
    "description": "writes a greeting",
    "initial_prompt": "greet",
    "agent": {"type": "script", "steps": [{"write": {"path": "a.txt", "content": "hello\n"}}, {"say": "done"}]},
    "success_criteria": [{"type": "file_exists", "description": "greeting is there", "path": "a.txt"}],
}

PASS = {"type": "file_exists", "description": "it is there", "path": "a.txt"}
FAIL = {"type": "file_exists", "description": "it is missing", "path": "missing.txt"}
OFF = {"type": "llm_judge", "description": "a judge switched off", "prompt": "is it good?", "enabled": False}
UNJUDGED = {"type": "llm_judge", "description": "a judge that cannot work", "prompt": "is it good?"}


class Repo:
    """Writes task files into the directory of a pytester test and reads what a session left."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        (self.path / "tasks").mkdir()

    def task(self, name: str = "hello", **fields: Any) -> Path:
        """Write tasks/NAME.yaml: the greeting task with `fields` laid over it; None drops a field."""
        content = {**HELLO, "task_id": name, **fields}
        content = {key: value for key, value in content.items() if value is not None}
        path = self.path / "tasks" / f"{name}.yaml"
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
        return path

    def script(self, name: str, *steps: dict[str, Any], **fields: Any) -> Path:
        """Write a task whose agent takes these steps."""
        return self.task(name, agent={"type": "script", "steps": list(steps)}, **fields)

    def file(self, name: str, text: str) -> Path:
        """Write any other file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    def run(self, *args: str) -> pytest.RunResult:
        """Run pytest in a process of its own, with `run` as run directory and JUnit in junit.xml."""
        return self.pytester.runpytest_subprocess(
            "-p", "no:cacheprovider", "--codereval-run-dir=run", "--junitxml=junit.xml", *args
        )

    def collect(self, *args: str) -> list[str]:
        """The node ids that `--collect-only -q` prints."""
        result = self.pytester.runpytest_subprocess("--collect-only", "-q", *args)
        return [line for line in result.outlines if "::" in line and not line.startswith(("ERROR", "FAILED"))]

    def suite(self) -> ET.Element:
        """The testsuite element of junit.xml."""
        suite = ET.parse(self.path / "junit.xml").getroot().find("testsuite")
        assert suite is not None
        return suite

    def cases(self) -> dict[str, str]:
        """Each testcase of junit.xml with what became of it: passed, failure, error or skipped."""
        found = {}
        for case in self.suite().iter("testcase"):
            kinds = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
            assert len(kinds) <= 1, f"{case.get('name')} has {kinds}"
            found[str(case.get("name"))] = kinds[0] if kinds else "passed"
        return found

    def record(self, task: str = "hello", label: str = "trial") -> dict[str, Any]:
        """The record of a trial."""
        return json.loads((self.path / "run" / "trials" / task / label / "record.json").read_text(encoding="utf-8"))


@pytest.fixture
def repo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository with a folder `tasks`. Plugins that only our own tests need are left out: they start slowly."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:anyio")
    return Repo(pytester)


@pytest.fixture
def without_landlock(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that reach the repository, as they can on kernels without Landlock."""
    repo.file("kernel.py", "from pytest_codereval.sandbox import landlock\nlandlock.abi = lambda: 0\n")
    monkeypatch.setenv("PYTEST_PLUGINS", "kernel")
