"""The outcome table, as the terminal, JUnit XML and the exit status show it."""

from __future__ import annotations

import re

import pytest

from .conftest import FAIL, OFF, PASS, UNJUDGED, Repo

WORKERS = ["-n0", "-n2"]


def _four(repo: Repo) -> None:
    repo.task("passes")
    repo.task("fails", success_criteria=[PASS, FAIL])
    repo.task("unevaluated", success_criteria=[OFF])
    repo.task("errs", success_criteria=[PASS, UNJUDGED])
    repo.script("crashes", {"crash": "out of memory"})
    repo.task("agentless", agent=None)


@pytest.mark.parametrize("workers", WORKERS)
def test_every_status_in_terminal_and_junit(repo: Repo, workers: str) -> None:
    _four(repo)
    result = repo.run(workers)
    result.assert_outcomes(passed=1, failed=1, skipped=1, errors=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    cases = repo.cases()
    trials = {name: cases[name] for name in ("passes", "fails", "unevaluated", "errs", "crashes", "agentless")}
    assert trials == {
        "passes": "passed",
        "fails": "failure",
        "unevaluated": "skipped",
        "errs": "error",
        "crashes": "error",
        "agentless": "error",
    }
    result.stdout.fnmatch_lines(["trials: 1 passed, 1 failed, 3 error, 1 not_evaluated", "pass rate: 20.0%"])


@pytest.mark.parametrize("workers", WORKERS)
def test_junit_totals_agree_with_its_elements(repo: Repo, workers: str) -> None:
    _four(repo)
    repo.run(workers)
    suite = repo.suite()
    kinds = ("failure", "error", "skipped")
    counted = {kind: len(suite.findall(f".//{kind}")) for kind in kinds}
    assert int(suite.get("tests", 0)) == len(suite.findall("testcase"))
    assert [int(suite.get(name, 0)) for name in ("failures", "errors", "skipped")] == list(counted.values())


def test_each_criterion_is_a_testcase(repo: Repo) -> None:
    informational = {**FAIL, "description": "only informs", "weight": 0}
    repo.task("mixed", success_criteria=[PASS, FAIL, OFF, UNJUDGED, informational])
    repo.run()
    cases = repo.cases()
    assert cases == {
        "mixed": "error",
        "file_exists-it-is-there": "passed",
        "file_exists-it-is-missing": "failure",
        "llm_judge-a-judge-switched-off": "skipped",
        "llm_judge-a-judge-that-cannot-work": "error",
        "file_exists-only-informs": "passed",
    }
    skipped = repo.suite().find(".//testcase[@name='llm_judge-a-judge-switched-off']/skipped")
    assert skipped is not None
    assert str(skipped.get("message")).startswith("not evaluated: ")
    properties = repo.suite().findall(".//testcase[@name='file_exists-only-informs']/properties/property")
    assert {"codereval.verdict": "fail", "codereval.gating": "False"}.items() <= {
        str(p.get("name")): str(p.get("value")) for p in properties
    }.items()


def test_criteria_of_a_trial_in_error_are_listed_as_not_evaluated(repo: Repo) -> None:
    repo.script("crashes", {"crash": "out of memory"}, success_criteria=[PASS])
    repo.run()
    assert repo.cases() == {"crashes": "error", "file_exists-it-is-there": "skipped"}


def test_junit_is_the_same_with_and_without_workers(repo: Repo) -> None:
    _four(repo)
    texts = []
    for workers in ("-n0", "-n2", "-n8"):
        repo.run(workers)
        text = (repo.path / "junit.xml").read_text(encoding="utf-8")
        text = re.sub(r' (time|timestamp|hostname)="[^"]*"', "", text)
        texts.append(text)
    assert texts[0] == texts[1] == texts[2]


def test_ini_leaves_criteria_out_of_junit(repo: Repo) -> None:
    repo.pytester.makeini("[pytest]\ncodereval_junit = tasks\n")
    repo.task("fails", success_criteria=[PASS, FAIL])
    repo.run()
    assert repo.cases() == {"fails": "failure"}


def test_trial_properties(repo: Repo) -> None:
    repo.task("fails", success_criteria=[PASS, {**FAIL, "weight": 3}])
    repo.run()
    case = repo.suite().find("testcase[@name='fails']")
    assert case is not None
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["codereval.status"] == "failed"
    assert properties["codereval.score"] == "0.25"
    assert str(properties["codereval.record"]).endswith("record.json")


def test_a_failure_shows_the_criteria_and_no_traceback(repo: Repo) -> None:
    repo.task("fails", success_criteria=[PASS, FAIL])
    result = repo.run()
    result.stdout.fnmatch_lines(
        [
            "1 of 2 criteria failed: file_exists-it-is-missing",
            "weighted score 0.50",
            "*PASS *1.00*w=1*file_exists-it-is-there*",
            "*FAIL *0.00*w=1*file_exists-it-is-missing*fails.yaml:*",
            "*missing.txt*",
        ]
    )
    result.stdout.no_fnmatch_line("*pytest_codereval/*.py*")
    result.stdout.no_fnmatch_line("*Traceback*")


def test_verbose_shows_each_criterion(repo: Repo) -> None:
    repo.task("fails", success_criteria=[PASS, FAIL])
    for workers in WORKERS:
        result = repo.run("-v", workers)
        result.stdout.fnmatch_lines(["*PASS*file_exists-it-is-there*", "*FAIL*file_exists-it-is-missing*missing.txt*"])


@pytest.mark.parametrize("workers", WORKERS)
def test_an_unevaluated_trial_is_no_silent_success(repo: Repo, workers: str) -> None:
    repo.task("unevaluated", success_criteria=[OFF])
    repo.task("ungated", success_criteria=[{**PASS, "weight": 0}])
    repo.task("passes")
    assert repo.run(workers).ret == pytest.ExitCode.TESTS_FAILED
    assert repo.run(workers, "--codereval-allow-unevaluated").ret == pytest.ExitCode.OK


def test_weight_zero_informs_only_even_in_error(repo: Repo) -> None:
    repo.task("informed", success_criteria=[PASS, {**FAIL, "weight": 0}, {**UNJUDGED, "weight": 0}])
    result = repo.run()
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_a_disabled_criterion_leaves_gate_and_mean(repo: Repo) -> None:
    repo.task("off", success_criteria=[PASS, {**FAIL, "enabled": False}])
    repo.run().assert_outcomes(passed=1)
    assert repo.record("off")["score"] == 1.0


def test_maxfail_counts_trials(repo: Repo) -> None:
    for name in "abcd":
        repo.task(name, success_criteria=[FAIL, FAIL, FAIL])
    repo.run("--maxfail=2").assert_outcomes(failed=2)
    repo.run("-x").assert_outcomes(failed=1)


def test_error_beats_fail_in_the_gate(repo: Repo) -> None:
    repo.task("both", success_criteria=[FAIL, UNJUDGED])
    repo.run().assert_outcomes(errors=1)


def test_an_expected_failure_does_not_fail_the_session(repo: Repo) -> None:
    repo.task("fails", success_criteria=[FAIL])
    repo.file(
        "conftest.py",
        """
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(reason="known", strict=True))
        """,
    )
    result = repo.run()
    result.assert_outcomes(xfailed=1)
    assert result.ret == 0
    assert "failure" not in repo.cases().values()


def test_max_turns_stops_the_script_and_the_rest_is_judged(repo: Repo) -> None:
    steps = [{"write": {"path": "a.txt", "content": "x"}}, {"bash": "rm a.txt"}]
    repo.script("capped", *steps, run_limits={"max_turns": 1})
    repo.run().assert_outcomes(passed=1)
    assert repo.record("capped")["trajectory"]["turns"] == 1


def test_a_prompt_file_is_read_before_anything_is_staged(repo: Repo) -> None:
    repo.task("there", initial_prompt=None, initial_prompt_file="prompt.md")
    repo.file("tasks/prompt.md", "do it\n")
    repo.task("missing", initial_prompt=None, initial_prompt_file="none.md", pre_run=[{"command": "touch /nowhere/x"}])
    repo.run().assert_outcomes(passed=1, errors=1)
    assert repo.record("there")["prompt"] == "do it"
    assert "none.md" in repo.record("missing")["message"]


def test_an_error_is_never_an_expected_failure(repo: Repo) -> None:
    repo.script("crashes", {"crash": "x"})
    repo.task("errs", success_criteria=[UNJUDGED])
    repo.file(
        "conftest.py",
        """
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.xfail(reason="known"))
        """,
    )
    result = repo.run()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["trials: 2 error"])


def test_criteria_of_one_name_are_told_apart(repo: Repo) -> None:
    named = [{**PASS, "name": name} for name in ("x", "x", "x-2", "x")]
    repo.task("named", success_criteria=named)
    repo.run()
    assert sorted(repo.cases()) == ["named", "x", "x-2", "x-2-2", "x-3"]


def test_an_agent_that_is_not_available_is_an_error_before_anything_is_staged(repo: Repo) -> None:
    repo.task("hello", agent={"type": "opencode"}, pre_run=[{"command": "touch /nowhere/at/all"}])
    result = repo.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*'opencode' is not available*"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--codereval-agent=scrpt"],
        ["--codereval-repeat=0"],
        ["-o", "codereval_junit=some"],
        ["-o", "codereval_agent=nobody"],
    ],
)
def test_a_wrong_option_or_ini_value_is_a_usage_error(repo: Repo, arguments: list[str]) -> None:
    repo.task("hello")
    result = repo.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in result.stderr.str()


def test_the_agent_of_the_command_line_replaces_all_but_none(repo: Repo) -> None:
    repo.task("scripted")
    repo.task("agentless", agent={"type": "none"}, initial_prompt=None, success_criteria=[FAIL])
    result = repo.run("--codereval-agent=none")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*script steps*1 task*"])
    repo.run().assert_outcomes(passed=1, failed=1)


def test_the_ini_names_the_agent_of_tasks_without_one(repo: Repo) -> None:
    repo.pytester.makeini("[pytest]\ncodereval_agent = none\n")
    repo.task("hello", agent=None)
    repo.run().assert_outcomes(failed=1)
