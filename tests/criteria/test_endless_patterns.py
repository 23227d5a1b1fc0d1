"""A regular expression that does not end becomes an error within seconds, wherever an author may write one."""

from __future__ import annotations

import json

import pytest

from pytest_codereval.errors import JudgingError
from pytest_codereval.judging.bounded import bounded

from .build import call

PATTERN = "(a+)+$"
TEXT = "a" * 40 + "!"
SECONDS = 0.3

CASES = {
    "file_matches_regex": {"type": "file_matches_regex", "path": "a.txt", "pattern": PATTERN},
    "file_check": {"type": "file_check", "path": "a.txt", "patterns": [{"pattern": PATTERN}]},
    "command_executed": {"type": "command_executed", "command_pattern": PATTERN},
    "exclude_pattern": {"type": "command_executed", "exclude_pattern": PATTERN},
    "run_command": {
        "type": "run_command",
        "command": "cat a.txt",
        "expected_stdout": PATTERN,
        "stdout_match": "regex",
    },
    "cli_called": {"type": "cli_called", "tool": "t", "flags": {"f": {"matches_regex": PATTERN}}},
    "json_check": {
        "type": "json_check",
        "path": "a.json",
        "assertions": [{"expression": "@", "operator": "regex", "expected": PATTERN}],
    },
    "json_schema": {"type": "json_check", "path": "a.json", "json_schema": "schema.json"},
}


@pytest.mark.parametrize("name", CASES)
def test_endless_pattern_is_an_error_in_seconds(judge, workspace, name):
    (workspace / "a.txt").write_text(TEXT)
    (workspace / "a.json").write_text(json.dumps(TEXT))
    (workspace / "schema.json").write_text(json.dumps({"pattern": PATTERN}))
    (workspace / "cli_mocks").mkdir()
    record = {"tool": "t", "argv": ["--f", TEXT], "exit": 0}
    (workspace / "cli_mocks" / "calls.jsonl").write_text(json.dumps(record) + "\n")
    with pytest.raises(JudgingError, match=r"took more than 0\.3 s of CPU time"):
        bounded(lambda: judge(calls=[call("Bash", command=TEXT)], **CASES[name]), SECONDS)
