"""A whole trial of the plugin whose sandbox is made by the driver `bubblewrap`."""

from __future__ import annotations

import json

import pytest

from pytest_codereval.sandbox import drivers
from tests.sandbox.processes import needs_root

_HERE = drivers.driver("bubblewrap").availability()

pytestmark = pytest.mark.skipif(not _HERE.usable, reason=f"no bubblewrap: {_HERE.reason}")

TASK = r"""
task_id: sample
description: d
initial_prompt: p
agent:
  type: script
  steps:
    - bash: "git push; /usr/bin/git fetch; cat prepared; printf '42\n' >answer.txt"
    - bash: "cat {folder}/expected.txt && cp {folder}/expected.txt stolen.txt"
sandbox:
  driver: bubblewrap
  record_cli:
    - {{tool: git, exit_code: 0, stdout: "shim\n"}}
pre_run:
  - command: test -r "$TASK_DIR/expected.txt" && echo yes >prepared
success_criteria:
  - {{type: run_command, command: 'diff "$TASK_DIR/expected.txt" answer.txt', description: the answer is right}}
  - {{type: run_command, command: 'test ! -e stolen.txt', description: the answer was not at hand}}
  - {{type: cli_called, tool: git, verb: fetch, description: calls by the full path are recorded}}
"""


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:anyio")
    pytester.path.chmod(0o755)
    tasks = pytester.mkdir("tasks")
    (tasks / "sample.yaml").write_text(TASK.format(folder=tasks))
    (tasks / "expected.txt").write_text("42\n")
    return str(tasks)


def test_a_trial_passes(pytester: pytest.Pytester, folder: str) -> None:
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--codereval-run-dir=run", folder)
    result.assert_outcomes(passed=1)
    record = json.loads((pytester.path / "run/trials/sample/trial/record.json").read_text())
    assert [call["argv"] for call in record["invocations"]["calls"]] == [["push"], ["fetch"]]
    assert "No such file" in json.dumps(record)


@needs_root
@pytest.mark.parametrize("private", [".", "tasks", "tasks/sample.yaml"])
def test_what_only_root_can_read_is_there_for_graders_nevertheless(
    pytester: pytest.Pytester, folder: str, private: str
) -> None:
    place = pytester.path / private
    place.chmod(0o700 if place.is_dir() else 0o600)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--codereval-run-dir=run", folder)
    result.assert_outcomes(passed=1)
