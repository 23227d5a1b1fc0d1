"""An agent that attacks the harness gains nothing: the trial is an error that says so, and the next one is unharmed."""

from __future__ import annotations

import pytest

from .conftest import PASS, Repo

RECORDED = {"record_cli": [{"tool": "mytool", "exit_code": 0}]}
CALLED = {"type": "cli_called", "description": "called", "tool": "mytool"}
NEVER = {"type": "cli_called", "description": "never", "tool": "mytool", "verb": "rm", "min_count": 0, "max_count": 0}
SHIM = '"$(command -v mytool)"'
SPOOL = '"$(dirname "$(command -v mytool)")/../spool"'

ATTACKS = {
    "shim deleted": f"mytool a; rm -f {SHIM}",
    "shim replaced": f"mytool a; s={SHIM}; rm -f $s; printf '#!/bin/sh\\n' > $s; chmod +x $s; mytool rm",
    "shim made unusable": f"mytool a; chmod a-x {SHIM}",
    "index deleted": f"mytool a; rm -f {SPOOL}/index; mytool rm",
    "index flooded": f"mytool a; head -c 3000000 /dev/zero | tr '\\0' x > {SPOOL}/index",
    "record forged": f"mytool a; echo 1.1.1 > {SPOOL}/index",
    "spool deleted": f"mytool a; rm -rf {SPOOL}; mytool rm",
    "keeper killed": "mytool a; kill -9 $PPID; mytool rm",
    "keeper and supervisor killed": "mytool a; kill -9 $(cut -d ' ' -f 4 /proc/$PPID/stat) $PPID; mytool rm",
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.usefixtures("without_landlock")
def test_an_attack_on_the_evidence_is_an_error(repo: Repo, attack: str) -> None:
    repo.script("a-attack", {"bash": ATTACKS[attack]}, sandbox=RECORDED, success_criteria=[CALLED, NEVER])
    repo.script("b-next", {"bash": "mytool a"}, sandbox=RECORDED, success_criteria=[CALLED, NEVER])
    result = repo.run("-n1")
    assert repo.record("b-next")["status"] == "passed"
    if "killed" in attack and repo.record("a-attack")["status"] == "failed":
        result.assert_outcomes(passed=1, failed=1)
        assert "mytool rm" in str(repo.record("a-attack")["trajectory"]), "the kernel kept it from killing; it went on"
        return
    result.assert_outcomes(passed=1, errors=1)
    assert repo.record("a-attack")["cause"] in ("tampered", "evidence_lost")


@pytest.mark.parametrize(
    "material",
    [
        "echo changed >> {tasks}/check.py",
        "echo import os > {tasks}/json.py",
        "rm -f {tasks}/check.py",
        "mkdir -p {tasks}/extra; echo x > {tasks}/extra/x",
    ],
)
@pytest.mark.usefixtures("without_landlock")
def test_a_grader_that_was_changed_is_not_believed(repo: Repo, material: str) -> None:
    repo.file("tasks/check.py", "import json, sys\nsys.exit(1)\n")
    grader = {"type": "run_command", "description": "graded", "command": "python3 $TASK_DIR/check.py"}
    command = material.format(tasks=repo.path / "tasks")
    repo.script("attack", {"bash": command}, success_criteria=[grader])
    result = repo.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*tampered*task folder changed*"])
    assert repo.record("attack")["cause"] == "tampered"


def test_what_the_harness_and_preparation_write_is_no_tampering(repo: Repo) -> None:
    repo.file("check.py", "import sys\nsys.exit(0)\n")
    grader = {"type": "run_command", "description": "graded", "command": "python3 $TASK_DIR/check.py"}
    repo.script(
        "honest", {"say": "x"}, success_criteria=[grader], pre_run=[{"command": "date > $TASK_DIR/prepared.txt"}]
    ).rename(repo.path / "honest.yaml")
    repo.pytester.runpytest_subprocess("honest.yaml", "--codereval-repeat=2").assert_outcomes(passed=2)


@pytest.mark.parametrize("target", ["$(env | grep ^REFERENCE | cut -d= -f2)/answer.txt", "$TASK_DIR/check.py"])
def test_a_program_of_the_agent_that_a_criterion_runs_cannot_change_what_judges_it(repo: Repo, target: str) -> None:
    repo.file("tasks/check.py", "import sys\nsys.exit(1)\n")
    repo.file("tasks/solution/answer.txt", "42\n")
    commands = ["sh app.sh", "cmp answer.txt $REFERENCE_DIR/answer.txt", "python3 $TASK_DIR/check.py"]
    repo.script(
        "attack",
        {"write": {"path": "app.sh", "content": f"echo 7 > answer.txt; cat answer.txt > {target}"}},
        reference={"directory": "solution"},
        success_criteria=[{"type": "run_command", "description": text, "command": text} for text in commands],
    )
    repo.run().assert_outcomes(errors=1)
    assert repo.record("attack")["cause"] == "tampered"


def test_a_link_in_place_of_the_task_folder_is_not_followed(pytester: pytest.Pytester) -> None:
    spaced = pytester.mkdir("with space")
    (spaced / "grade.sh").write_text("exit 1\n")
    (spaced / "task.yaml").write_text(
        """
task_id: spaced
description: d
initial_prompt: p
agent:
  type: script
  steps:
    - bash: mkdir ../evil; echo exit 0 > ../evil/grade.sh; ln -s "$PWD/../evil" ../task
success_criteria:
  - {type: run_command, description: graded, command: sh $TASK_DIR/grade.sh}
"""
    )
    pytester.runpytest_subprocess(str(spaced), "-p", "no:cacheprovider").assert_outcomes(failed=1)


@pytest.mark.usefixtures("without_landlock")
def test_a_grader_that_a_variable_names_is_not_believed_once_changed(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = repo.file("checkout/graders/check.py", "import sys\nsys.exit(1)\n").parent.parent
    monkeypatch.setenv("CHECKOUT", str(checkout))
    repo.pytester.makeini("[pytest]\ncodereval_env_passthrough = CHECKOUT\n")
    grader = {"type": "run_command", "description": "graded", "command": "python3 $CHECKOUT/graders/check.py"}
    repo.script("attack", {"bash": f"echo > {checkout}/graders/check.py"}, success_criteria=[grader])
    repo.script("honest", {"say": "x"}, success_criteria=[grader])
    repo.run("-k", "attack").assert_outcomes(errors=1)
    assert repo.record("attack")["cause"] == "tampered"


@pytest.mark.usefixtures("without_landlock")
def test_a_reference_that_was_changed_is_not_believed(repo: Repo) -> None:
    repo.file("tasks/solution/answer.txt", "42\n")
    command = "cmp answer.txt $REFERENCE_DIR/answer.txt"
    repo.script(
        "attack",
        {"bash": f"echo 7 | tee answer.txt > {repo.path}/tasks/solution/answer.txt"},
        reference={"directory": "solution"},
        success_criteria=[{"type": "run_command", "description": "equal", "command": command}],
    )
    result = repo.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*tampered*reference changed*answer.txt*"])


@pytest.mark.parametrize("reference", [{"directory": "solution"}, {"file": "solution/answer.txt"}])
def test_the_reference_is_there_for_graders_and_only_for_them(repo: Repo, reference: dict[str, str]) -> None:
    repo.file("tasks/solution/answer.txt", "42\n")
    command = "cmp answer.txt $REFERENCE_DIR/answer.txt && test -d $TASK_DIR"
    search = 'env > env.txt; find "$PWD/.." -name answer.txt > found.txt; echo 42 > answer.txt'
    repo.script(
        "honest",
        {"bash": search},
        reference=reference,
        success_criteria=[
            {"type": "run_command", "description": "equal", "command": command},
            {"type": "file_matches_regex", "description": "nothing found", "path": "found.txt", "pattern": r"\A\Z"},
            {
                "type": "file_check",
                "description": "nothing told",
                "path": "env.txt",
                "excludes": [str(repo.path), "TASK_DIR", "REFERENCE_DIR", "honest", "PYTEST"],
            },
        ],
    )
    repo.run("-n1").assert_outcomes(passed=1)


def test_a_reference_given_as_text_is_a_file_of_its_own(repo: Repo) -> None:
    command = "cmp answer.txt $REFERENCE_DIR/*"
    repo.script(
        "coded",
        {"write": {"path": "answer.txt", "content": "42\n"}},
        reference={"code": "42\n"},
        success_criteria=[{"type": "run_command", "description": "equal", "command": command}],
    )
    repo.run().assert_outcomes(passed=1)


def test_a_missing_reference_is_said_before_the_agent_runs(repo: Repo) -> None:
    comparison = {
        "type": "reference_comparison",
        "description": "alike",
        "agent_file": "a.py",
        "reference_file": "missing.py",
    }
    repo.file("tasks/solution/answer.py", "x = 1\n")
    repo.script("nowhere", {"say": "x"}, reference={"directory": "nowhere"}, success_criteria=[PASS])
    repo.script("missing", {"say": "x"}, reference={"directory": "solution"}, success_criteria=[comparison])
    result = repo.run()
    result.assert_outcomes(errors=2)
    for task in ("nowhere", "missing"):
        assert repo.record(task)["cause"] == "configuration"
        assert repo.record(task)["trajectory"] is None
