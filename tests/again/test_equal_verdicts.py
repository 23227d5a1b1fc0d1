"""What was judged when a trial ran is judged the same from its record, for every type of criterion."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from pytest_codereval.task.criteria_models import CRITERION_MODELS

from ..plugin.conftest import Repo

NEEDS_A_MODEL = {"llm_judge", "agent_judge", "system_one_judge", "uipath_eval"}

CODE = "def f(x):\n    return x + 1\n"

STEPS: list[dict[str, Any]] = [
    {"write": {"path": "a.txt", "content": "hello world\n"}},
    {"write": {"path": "label.txt", "content": "billing\n"}},
    {"write": {"path": "out.json", "content": '{"n": 3, "items": ["x"]}'}},
    {"write": {"path": "schema.json", "content": '{"type": "object", "required": ["n"]}'}},
    {"write": {"path": "code.py", "content": CODE}},
    {"write": {"path": "odd/na me\u00e9.txt", "content": "odd"}},
    {"bash": "chmod 640 a.txt; chmod 755 code.py; mkdir -m 700 closed; ln -s a.txt near; ln -s $PWD/a.txt here"},
    {"bash": "ln -s /usr/bin/env system; ln -s missing.txt dangling; ln -s $PWD/later gone; ln -s /etc/passwd out"},
    {"bash": "mkfifo pipe; git init -q . 2>/dev/null; printf x > closed/x; touch -d @1000000000 a.txt"},
    {"bash": "uip users add --name x --role admin && cd odd && uip list"},
    {"bash": "cd $PWD && cat a.txt | grep hello"},
    {"tool": {"name": "Skill", "parameters": {"skill": "greeting"}, "output": "read"}},
    {"say": "done: billing"},
]


def criterion(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "description": kind, "weight": 0, **fields}


CRITERIA = [
    criterion("file_exists", path="a.txt"),
    criterion("file_exists", path="odd/*.txt"),
    criterion("file_exists", path="out"),
    criterion("file_exists", path="system"),
    criterion("file_exists", path="dangling"),
    criterion("file_contains", path="here", includes=["hello"], excludes=["bye"]),
    criterion("file_matches_regex", path="near", pattern="h.llo"),
    criterion("file_check", path="a.txt", includes=["hello", "nothing"]),
    criterion(
        "json_check", path="out.json", json_schema="schema.json", assertions=[{"expression": "n", "expected": 4}]
    ),
    criterion("classification_match", path="label.txt", expected_label="billing", allowed_labels=["billing", "other"]),
    criterion("reference_comparison", agent_file="code.py", reference_file="code.py"),
    criterion("commands_efficiency", expected_commands=2),
    criterion("command_executed", command_pattern="grep hello"),
    criterion("command_executed", command_pattern="uip users", require_success=True),
    criterion("cli_called", tool="uip", verb="users add", flags={"role": "admin"}),
    criterion("cli_called", tool="uip", verb="remove", min_count=0, max_count=0),
    criterion("skill_triggered", skill_name="greeting", expected_skill="greeting"),
    criterion("run_command", command="cmp code.py $REFERENCE_DIR/code.py && . $TASK_DIR/graders/check.sh"),
    criterion("run_command", command="uip users add > printed; grep -q answered printed", shims=True),
    criterion("run_command", command="grep -c users cli_mocks/calls.jsonl", expected_stdout="1\n"),
    criterion(
        "run_command",
        command="ls -l --time-style=+%s a.txt code.py closed | cut -c1-11,30-; stat -c '%a %F %N' * | sort; exit 3",
    ),
    criterion("run_command", command="codereval-run ./code.py; codereval-run cat a.txt | grep hello"),
    criterion("run_command", command="git config --list --local | sort; ls -a .git | head -3; exit 4"),
]


def judged(record: dict[str, Any]) -> list[dict[str, Any]]:
    """The results, with one name for all workspaces."""
    told = [{key: value for key, value in each.items() if key != "duration"} for each in record["criteria"]]
    return json.loads(re.sub(r"/[\w./-]*/t\d+/workspace", "ROOT", json.dumps(told)))


def test_every_type_is_judged_the_same_from_the_record(repo: Repo) -> None:
    assert {each["type"] for each in CRITERIA} >= set(CRITERION_MODELS) - NEEDS_A_MODEL, "a type has no case here"
    repo.file("tasks/graders/check.sh", "test -f a.txt && test $(stat -c %a a.txt) = 640\n")
    repo.file("tasks/solution/code.py", CODE)
    gate = [{"type": "file_exists", "description": "it gates", "path": "a.txt"}]
    sandbox = {"record_cli": [{"tool": "uip", "stdout": "answered", "options": {"name": 1, "role": 1}}]}
    repo.script(
        "all", *STEPS, sandbox=sandbox, reference={"directory": "solution"}, success_criteria=[*gate, *CRITERIA]
    )
    assert repo.run("tasks").ret == 0
    before = repo.record("all")
    (repo.path / "run").rename(repo.path / "first")
    assert repo.run("tasks", "--codereval-regrade=first").ret == 0
    after = repo.record("all")
    assert [each["verdict"] for each in before["criteria"]].count("pass") > len(CRITERIA) // 2
    assert judged(after) == judged(before)
    assert after["stored"]["record"] == str(Path(repo.path / "first/trials/all/trial/record.json").resolve())
