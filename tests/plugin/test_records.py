"""The run directory and the records in it."""

from __future__ import annotations

import fcntl
import json

import pytest

from .conftest import FAIL, PASS, Repo


def test_a_record_holds_what_judging_again_needs(repo: Repo) -> None:
    repo.script(
        "recorded",
        {"bash": "mytool push --all"},
        {"write": {"path": "out/a.txt", "content": "x"}},
        {"say": "pushed"},
        sandbox={"record_cli": [{"tool": "mytool", "exit_code": 3}]},
        success_criteria=[{**PASS, "path": "out/a.txt"}],
        pre_run=[{"command": "echo prepared"}],
        post_run=[{"command": "echo cleaned"}],
    )
    repo.run().assert_outcomes(passed=1)
    record = repo.record("recorded")
    assert (record["format"], record["version"], record["status"]) == ("codereval-trial", 1, "passed")
    assert record["task"]["resolved"]["task_id"] == "recorded"
    assert "mytool push" in record["task"]["source"]
    assert len(record["fingerprint"]) == 64
    kinds = [event["kind"] for event in record["trajectory"]["events"]]
    assert kinds == ["Message", *["ModelCall", "ToolCall"] * 2, "ModelCall", "Message"]
    assert record["trajectory"]["events"][2]["exit_status"] == 3
    assert record["trajectory"]["final_answer"] == "pushed"
    assert (record["trajectory"]["turns"], record["spending"]["cost_complete"]) == (3, True)
    assert record["trajectory"]["usage"]["cost_usd"] == 0.0
    (call,) = record["invocations"]["calls"]
    assert (call["tool"], call["argv"], call["exit_status"]) == ("mytool", ["push", "--all"], 3)
    assert record["criteria"][0]["verdict"] == "pass"
    assert [hook["stdout"] for hook in record["pre_run"] + record["post_run"]] == ["prepared\n", "cleaned\n"]
    assert record["environment"]["driver"] == "tempdir"
    assert record["times"]["started"] <= record["times"]["sealed"] <= record["times"]["finished"]
    workspace = repo.path / "run" / "trials" / "recorded" / "trial" / "workspace"
    assert (workspace / "out" / "a.txt").read_text() == "x"
    assert any("out/a.txt" in json.dumps(entry) for entry in record["workspace"]["files"])


def test_a_trial_in_error_is_recorded_too(repo: Repo) -> None:
    repo.script("crashes", {"bash": "echo half > half.txt"}, {"crash": "killed"})
    repo.run()
    record = repo.record("crashes")
    assert (record["status"], record["cause"], record["message"]) == ("error", "agent_crash", "killed")
    assert {result["verdict"] for result in record["criteria"]} == {"not_evaluated"}
    assert [event["kind"] for event in record["trajectory"]["events"]] == ["Message", "ModelCall", "ToolCall"]
    assert (record["earlier_attempts"], record["spending"]["calls"]) == ([], 1)


def test_a_failing_preparation_is_an_error_and_is_cleaned_up(repo: Repo) -> None:
    repo.task("prep", pre_run=[{"command": "echo no licence >&2; exit 4"}], post_run=[{"command": "echo bye"}])
    result = repo.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*pre_run failed*exited 4*no licence*"])
    record = repo.record("prep")
    assert record["cause"] == "pre_run"
    assert record["post_run"][0]["stdout"] == "bye\n"


def test_rows_and_repeats_have_records_of_their_own(repo: Repo) -> None:
    repo.task("rows", dataset={"rows": [{"id": "one"}, {"id": "two"}]})
    repo.run("--codereval-repeat=2").assert_outcomes(passed=4)
    folders = sorted(path.name for path in (repo.path / "run" / "trials" / "rows").iterdir())
    assert folders == ["one-r1", "one-r2", "two-r1", "two-r2"]
    assert repo.record("rows", "two-r1")["trial"]["row_id"] == "two"


def test_a_second_session_in_a_locked_run_directory_is_refused(repo: Repo) -> None:
    repo.task("hello")
    (repo.path / "run").mkdir()
    with (repo.path / "run" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        result = repo.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*in use by another session*"])


def test_an_earlier_run_is_put_aside_and_never_mixed_in(repo: Repo) -> None:
    repo.task("first")
    repo.run()
    (repo.path / "tasks" / "first.yaml").unlink()
    repo.task("second")
    repo.run()
    assert [path.name for path in (repo.path / "run" / "trials").iterdir()] == ["second"]
    assert len(list((repo.path / "run" / "earlier").glob("*/trials/first/trial/record.json"))) == 1


def test_the_session_is_described(repo: Repo) -> None:
    repo.task("fails", success_criteria=[FAIL])
    repo.run("-n2")
    session = json.loads((repo.path / "run" / "run.json").read_text())
    assert (session["exit_status"], session["collected"], session["reported"]) == (1, 1, 1)


def test_the_default_run_directory_is_out_of_the_way(repo: Repo) -> None:
    repo.task("hello")
    repo.pytester.runpytest_subprocess().assert_outcomes(passed=1)
    (run,) = [path for path in (repo.path / ".codereval").iterdir() if path.is_dir() and not path.is_symlink()]
    assert (run / "trials" / "hello" / "trial" / "record.json").exists()
    assert (repo.path / ".codereval" / ".gitignore").read_text() == "*\n"


def test_collecting_leaves_no_run_directory(repo: Repo) -> None:
    repo.task("hello")
    repo.run("--collect-only")
    assert not (repo.path / "run").exists()
    assert not (repo.path / ".codereval").exists()


def test_text_that_cannot_travel_is_cleaned(repo: Repo) -> None:
    repo.script(
        "odd",
        {"bash": r"printf '\377\033[31m\000 odd \n'; printf 'x' > \"$(printf 'bad\\377name')\""},
        {"say": "\u001b[2J bell\a"},
        success_criteria=[
            {"type": "run_command", "description": "shows odd bytes", "command": r"printf '\377\033[2J'; exit 1"}
        ],
    )
    for workers in ("-n0", "-n2"):
        result = repo.run(workers)
        result.assert_outcomes(failed=1)
        assert "\x1b[2J" not in result.stdout.str()
        assert repo.cases()["odd"] == "failure"


def test_a_record_that_cannot_be_written_is_an_error(repo: Repo) -> None:
    repo.task("lost", post_run=[{"command": f"rm -rf {repo.path}/run/trials/lost"}])
    result = repo.run()
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["*the record could not be written*"])


@pytest.mark.parametrize("workers", ["-n1", "-n2"])
def test_a_worker_that_dies_loses_no_trial(repo: Repo, workers: str) -> None:
    repo.script("killer", {"say": "x"}, success_criteria=[{**PASS, "name": "of-the-dead"}])
    repo.task("hello")
    repo.file(
        "conftest.py",
        """
        import os, signal, pytest
        @pytest.fixture
        def codereval_run(codereval_run, request):
            if request.node.name == "killer":
                os.kill(os.getpid(), signal.SIGKILL)
            return codereval_run
        """,
    )
    result = repo.run(workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert repo.cases()["killer"] == "error"
    assert repo.cases()["hello"] == "passed"
    record = repo.record("killer")
    assert (record["status"], record["cause"]) == ("error", "interrupted")
    assert repo.cases()["of-the-dead"] == "skipped"
    result.stdout.fnmatch_lines(["trials: 1 passed, 1 error", "pass rate: 50.0%"])


@pytest.mark.usefixtures("without_landlock")
def test_a_record_that_vanishes_makes_the_session_unbelievable(repo: Repo) -> None:
    repo.task("a-first")
    repo.script(
        "b-vandal",
        {"bash": f"rm -rf {repo.path}/run/trials/a-first"},
        success_criteria=[{"type": "run_command", "description": "true", "command": "true"}],
    )
    result = repo.run()
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    result.stdout.fnmatch_lines(["*the records of 1 trials are gone, e.g. a-first*"])


def test_a_trial_that_fails_twice_counts_once(repo: Repo) -> None:
    repo.script("crash", {"crash": "x"}, post_run=[{"command": f"rm -rf {repo.path}/run/trials/crash"}])
    result = repo.run()
    result.stdout.fnmatch_lines(["trials: 1 error", "pass rate: 0.0%"])


def test_a_report_that_gets_lost_fails_the_session(repo: Repo) -> None:
    repo.task("hello")
    repo.file(
        "conftest.py",
        """
        import pytest
        @pytest.hookimpl(wrapper=True, tryfirst=True)
        def pytest_runtest_makereport(item):
            report = yield
            report.unserialisable = object()
            return report
        """,
    )
    result = repo.run("-n1")
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
