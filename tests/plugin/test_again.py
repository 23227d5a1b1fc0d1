"""Judging from records, going on with a run, and executing only, from outside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.__main__ import main
from pytest_codereval.store.run_directory import RunDirectory

from .conftest import FAIL, PASS, Repo

CRASH = ({"write": {"path": "a.txt", "content": "x"}}, {"crash": "boom"})


def change(repo: Repo, run: str, task: str, **fields: Any) -> None:
    """Change a record by hand."""
    path = repo.path / run / "trials" / task / "trial" / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def edit_task(repo: Repo, name: str, old: str, new: str) -> None:
    path = repo.path / "tasks" / f"{name}.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def properties(repo: Repo) -> dict[str, dict[str, str]]:
    return {
        str(case.get("name")): {str(each.get("name")): str(each.get("value")) for each in case.iter("property")}
        for case in repo.suite().iter("testcase")
    }


def test_what_was_executed_only_is_judged_when_the_run_is_resumed(repo: Repo) -> None:
    repo.task("good")
    repo.task("bad", success_criteria=[FAIL], stop_early=True)
    done = repo.run("tasks", "--codereval-execute-only")
    assert done.ret == 0
    done.stdout.fnmatch_lines(["*criteria stop no agent early: 1 task ask for it*", "trials: 2 not_evaluated"])
    before = {name: repo.record(name) for name in ("good", "bad")}
    for record in before.values():
        assert (record["status"], record["judged"], record["message"]) == (
            "not_evaluated",
            False,
            "executed, not judged",
        )
    assert repo.cases()["good"] == "skipped"

    done = repo.pytester.runpytest_subprocess("tasks", "--codereval-resume=run", "--junitxml=junit.xml")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["codereval: 2 trials judged from their records, no agent ran"])
    for name, status in (("good", "passed"), ("bad", "failed")):
        record = repo.record(name)
        assert (record["status"], record["judged"]) == (status, True)
        assert record["times"]["agent_started"] == before[name]["times"]["agent_started"]
        assert record["workspace"] == before[name]["workspace"]

    done = repo.pytester.runpytest_subprocess("tasks", "--codereval-resume=run", "--junitxml=junit.xml", "-n2")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["codereval: 2 trials reported from their records, not run again"])
    assert repo.cases() == {
        "good": "passed",
        "file_exists-greeting-is-there": "passed",
        "bad": "failure",
        "file_exists-it-is-missing": "failure",
    }
    assert properties(repo)["good"]["codereval.stored"] == "true"


def test_a_regrade_uses_todays_criteria_and_lifts_no_error_to_passed(repo: Repo) -> None:
    repo.script("crashed", *CRASH)
    repo.task("mended", success_criteria=[{**FAIL, "weight": 2}])
    for name in ("capped", "tampered", "lost", "torn", "newer", "unsealed"):
        repo.task(name, success_criteria=[PASS])
    assert repo.run("tasks").ret == 1
    (repo.path / "run").rename(repo.path / "first")
    change(repo, "first", "capped", stopped="max_usd", spending={"usage": {"cost_usd": 1.5}, "cost_complete": True})
    change(repo, "first", "tampered", status="error", cause="tampered", message="the log was cut")
    change(repo, "first", "newer", version=2)
    change(repo, "first", "unsealed", workspace=None)
    (repo.path / "first/trials/lost/trial/record.json").unlink()
    torn = repo.path / "first/trials/torn/trial/record.json"
    torn.write_bytes(torn.read_bytes()[:99])
    edit_task(repo, "mended", "missing.txt", "a.txt")

    done = repo.run("tasks", "--codereval-regrade=first")
    done.assert_outcomes(passed=1, failed=1, errors=6)
    output = done.stdout.str()
    for said in (
        "the agent crashed: boom",
        "holds no record of lost",
        "record version 2, expected 1",
        "tampered: the log was cut",
        "not a readable trial record",
        "the trial was not sealed",
        "went over max_usd",
        "cost: $0.0000 (stored trials had cost $1.5000)",
    ):
        assert said in output
    crashed, mended = repo.record("crashed"), repo.record("mended")
    assert (crashed["status"], crashed["cause"]) == ("error", "agent_crash")
    assert {each["verdict"] for each in crashed["criteria"]} == {"not_evaluated"}
    assert mended["status"] == "passed"
    assert mended["stored"]["record"].endswith("first/trials/mended/trial/record.json")
    assert repo.record("capped")["status"] == "failed"

    done = repo.pytester.runpytest_subprocess("tasks/mended.yaml", "--codereval-regrade=run", "-q")
    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["*was judged from *: give the run of that one*"])


def test_only_what_is_missing_torn_or_in_error_runs_again(repo: Repo) -> None:
    for name in ("kept", "torn", "gone", "drifted"):
        repo.task(name, success_criteria=[PASS])
    repo.script("crashed", *CRASH, success_criteria=[PASS])
    repo.task("failed", success_criteria=[FAIL])
    assert repo.run("tasks").ret == 1
    names = ("kept", "torn", "gone", "drifted", "crashed", "failed")
    began = {name: repo.record(name)["times"]["started"] for name in names}
    trials = repo.path / "run" / "trials"
    record = trials / "torn" / "trial" / "record.json"
    record.write_bytes(record.read_bytes()[:99])
    (trials / "gone").rename(repo.path / "moved")
    edit_task(repo, "drifted", "initial_prompt: greet", "initial_prompt: greet all")
    edit_task(repo, "crashed", "crash: boom", "say: better")

    done = repo.pytester.runpytest_subprocess("tasks", "--codereval-resume=run")
    done.assert_outcomes(passed=4, failed=1, errors=1)
    output = done.stdout.str()
    assert "torn: re-run: record unreadable" in output
    assert "crashed: re-run: it ended in agent_crash" in output
    assert "task: initial_prompt. --codereval-resume-drifted=rerun" in output
    again = {name for name in began if repo.record(name)["times"]["started"] != began[name]}
    assert again == {"torn", "gone", "crashed"}
    assert len(list((repo.path / "run/earlier/trials").glob("*/*"))) == 2

    done = repo.pytester.runpytest_subprocess(
        "tasks/drifted.yaml", "tasks/kept.yaml", "--codereval-resume=run", "--codereval-resume-drifted=rerun"
    )
    done.assert_outcomes(passed=2)
    assert repo.record("drifted")["times"]["started"] != began["drifted"]
    assert repo.record("kept")["times"]["started"] == began["kept"]


def test_a_run_in_use_is_refused_and_options_that_contradict(repo: Repo) -> None:
    repo.task()
    directory = RunDirectory(repo.path / "run")
    directory.claim()
    directory.new_trial("hello", "")
    done = repo.pytester.runpytest_subprocess("tasks", "--codereval-resume=run")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stderr.fnmatch_lines(["*is in use by another session*"])
    directory.release()
    for options, said in (
        (("--codereval-regrade=run", "--codereval-execute-only"), "exclude each other"),
        (("--codereval-regrade=run", "--codereval-run-dir=run"), "its records are not overwritten"),
    ):
        done = repo.pytester.runpytest_subprocess("tasks", *options)
        assert done.ret == pytest.ExitCode.USAGE_ERROR
        done.stderr.fnmatch_lines([f"*{said}*"])


PYTHON_TEST = """
    import pytest

    @pytest.mark.codereval(task="tasks/hello.yaml")
    def test_evidence(codereval_run):
        assert codereval_run.workspace.read_text("a.txt") == "hello\\n"
        assert codereval_run.final_answer == "done"

    @pytest.mark.codereval(task="tasks/hello.yaml")
    def test_judged(codereval_run):
        codereval_run.assert_passed()
"""


def test_python_tests_get_their_own_stored_trial(repo: Repo) -> None:
    repo.task()
    repo.file("test_own.py", PYTHON_TEST)
    assert repo.run("test_own.py").ret == 0
    done = repo.pytester.runpytest_subprocess("test_own.py", "--codereval-regrade=run", "--codereval-run-dir=later")
    done.assert_outcomes(passed=2)
    done = repo.pytester.runpytest_subprocess("test_own.py", "--codereval-resume=run")
    done.assert_outcomes(passed=2)
    trials = repo.path / "run/trials/hello"
    assert sorted(path.name for path in trials.iterdir()) == ["trial", "trial.again2"]

    (trials / "trial.again2" / "record.json").unlink()
    kept = repo.record()
    done = repo.pytester.runpytest_subprocess("test_own.py", "--codereval-resume=run")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["codereval: 1 trials judged from their records, no agent ran"])
    (trials / "trial.again3" / "record.json").write_text("{")
    done = repo.pytester.runpytest_subprocess("test_own.py", "--codereval-resume=run")
    done.assert_outcomes(passed=2)
    done.stdout.fnmatch_lines(["codereval: hello: re-run: record unreadable"])
    assert repo.record() == kept


def test_the_command_judges_by_records_and_runs_nothing_of_them_without_consent(
    repo: Repo, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = {"type": "run_command", "description": "it runs", "command": f"touch {repo.path}/ran && test -f a.txt"}
    repo.task("looks", success_criteria=[PASS])
    repo.task("runs", success_criteria=[PASS, command])
    assert repo.run("tasks", "--codereval-repeat=2").ret == 0
    (repo.path / "ran").unlink()
    monkeypatch.chdir(repo.path)
    assert main(["regrade", "run"]) == 2
    refused = capsys.readouterr().err
    assert "nothing was judged" in refused
    assert f"runs[r1]: success_criteria[1] run_command: touch {repo.path}/ran" in refused
    assert not Path("ran").exists()
    (repo.path / "run/trials/torn/trial").mkdir(parents=True)
    (repo.path / "run/trials/torn/trial/record.json").write_text("{")
    assert main(["regrade", "run", "--allow-recorded-commands", "--run-dir", "zero"]) == 1
    assert "not a readable trial record" in capsys.readouterr().out
    (repo.path / "run/trials/torn/trial/record.json").unlink()
    assert main(["regrade", "run", "--task", "tasks/looks.yaml", "--run-dir", "one"]) == 0
    told = [json.loads(path.read_text())["trial"] for path in sorted(Path("one").glob("trials/looks/*/record.json"))]
    assert [(each["id"], each["repeat"], each["repeats"]) for each in told] == [
        ("looks[r1]", 1, 2),
        ("looks[r2]", 2, 2),
    ]
    assert main(["regrade", "run", "--allow-recorded-commands", "--run-dir", "two"]) == 0
    assert "runs[r1]: passed: 2 of 2 criteria passed" in capsys.readouterr().out
    assert Path("ran").exists()
    assert json.loads(Path("two/trials/runs/r1/record.json").read_text())["stored"]["record"]
