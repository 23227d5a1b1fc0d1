"""Gates over several trials: exit status, JUnit, terminal, suites.json. `tests.sessions.gate_matrix` has all cells."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ..sessions.gated import LABEL, repeated, suite, write
from .conftest import Repo


def gates(repo: Repo, kind: str) -> dict[str, dict[str, Any]]:
    """The gates of suites.json by the name of their task."""
    found = json.loads((repo.path / "run" / "suites.json").read_text())[kind]
    return {gate["id"].split("::")[1]: gate for gate in found}


def test_missed_gates_fail_the_session_and_passed_ones_are_testcases(repo: Repo) -> None:
    write(
        repo.path,
        [
            suite("met", "pp", 1.0),
            suite("missed", "pf", 0.6, pass_threshold=0.0),
            repeated("tolerated", "pfp", {"pass_rate": 0.6, "pass@2": 0.9}),
            repeated("too-few", "pff", {"pass^2": 0.1}),
        ],
    )
    result = repo.run("-x", "-n0", "-v")
    assert result.ret == 1
    assert result.parseoutcomes() == {"failed": 2, "passed": 7, "tolerated": 3}
    result.stdout.fnmatch_lines(
        [
            "*tolerated.yaml::tolerated*r2* TOLERATED*",
            "*1 of 1 threshold missed: label: accuracy 0.5 < 0.6",
            "*MISS accuracy 0.5 < 0.6",
            "*= tolerated failures =*",
            "tolerated.yaml::tolerated[[]r2]: 1 of 1 criteria failed: label",
            "trials: 7 passed, 3 failed, 3 of the failed tolerated",
            "pass rate: 70.0%",
            "passed *met.yaml::met::suite-gate: 1 threshold met",
            "FAILED *missed.yaml::missed::suite-gate: *",
            "passed *tolerated.yaml::tolerated::repeats-gate: 2 of 3 passed (66.7%, 95 % interval 20.8% to 93.9%); *",
            "FAILED *too-few::repeats-gate: 1 of 3 passed *; pass^2 0 < 0.1",
        ],
    )
    cases = {f"{case.get('classname')}.{case.get('name')}": case for case in repo.suite().iter("testcase")}
    assert cases["met.yaml.met.suite-gate"].find("failure") is None
    failure = cases["missed.yaml.missed.suite-gate"].find("failure")
    assert failure is not None
    assert "good: precision 1  recall 0.5" in str(failure.text)
    assert cases["too-few.yaml.too-few.repeats-gate"].find("failure") is not None
    for name in ("tolerated[r2]", "tolerated.label[r2]"):
        skipped = cases[f"tolerated.yaml.{name}"].find("skipped")
        assert skipped is not None
        assert "tolerated" in str(skipped.get("message"))
    names = list(cases)
    assert names.index("met.yaml.met.suite-gate") < names.index("missed.yaml.missed[first]")
    assert (repo.suite().get("tests"), repo.suite().get("failures")) == (str(len(cases)), "2")
    assert gates(repo, "suites")["missed"]["criteria"][0]["confusion"] == {"good": {"bad": 1, "good": 1}}
    assert gates(repo, "repeats")["tolerated"]["wilson_95"] == pytest.approx([0.2077, 0.9385], abs=1e-4)
    assert json.loads((repo.path / "run" / "run.json").read_text())["exit_status"] == 1


def test_a_tolerated_failure_is_green_when_its_gate_is_met_and_never_without(repo: Repo) -> None:
    write(repo.path, [repeated("flaky", "pfp", {"pass_rate": 0.5}), suite("rows", "ppp", 1.0)])
    result = repo.run("-x", "-n2", "-o", "codereval_junit=tasks")
    assert result.ret == 0
    assert result.parseoutcomes() == {"passed": 5, "tolerated": 1}
    assert repo.cases() == {
        **{f"flaky[r{n}]": "skipped" if n == 2 else "passed" for n in (1, 2, 3)},
        **dict.fromkeys(("repeats-gate", "rows[first]", "rows[row1]", "rows[row2]", "suite-gate"), "passed"),
    }
    result = repo.run("-k", "r2 or first")
    assert result.ret == 1
    cases = repo.cases()
    assert (cases["repeats-gate"], cases["suite-gate"]) == ("failure", "skipped")
    result.stdout.fnmatch_lines(["FAILED *flaky::repeats-gate: 1 of 3 trials ran; 0 of 1 passed *"])
    result.stdout.fnmatch_lines(["not judged *rows::suite-gate: 1 of 3 trials ran"])
    assert repo.run("-k", "r1 or first").ret == 0
    assert repo.cases()["repeats-gate"] == "skipped"


def test_errors_count_and_never_become_green(repo: Repo) -> None:
    """A worker that dies leaves a trial in error: it stays in the denominator with its expected label."""
    write(repo.path, [suite("rows", "ppppk", 0.8), repeated("flaky", "pppe", {"pass_rate": 0.75})])
    result = repo.run("-n2")
    assert result.ret == 1
    cases = repo.cases()
    assert (cases["suite-gate"], cases["repeats-gate"]) == ("passed", "passed")
    assert (cases["rows[row4]"], cases["flaky[r4]"]) == ("error", "error")
    (criterion,) = gates(repo, "suites")["rows"]["criteria"]
    assert criterion["confusion"] == {"good": {"(error)": 1, "good": 4}}
    assert criterion["metrics"]["completion_rate"] == 0.8


def test_a_suite_that_was_not_evaluated_has_not_passed(repo: Repo) -> None:
    off = {"type": "llm_judge", "description": "switched off", "prompt": "good?", "enabled": False}
    task = suite("rows", "pp", 1.0)
    write(repo.path, [task | {"success_criteria": [off | {"suite_thresholds": {"mean": 0.5}}]}])
    assert repo.run().ret == 1
    assert "suite-gate" not in repo.cases()
    assert LABEL["name"] not in repo.cases()


def test_stored_trials_have_their_gates_in_a_session_that_only_executes(repo: Repo) -> None:
    write(repo.path, [repeated("too-few", "pff", {"pass_rate": 0.9})])
    assert repo.run("-n0").ret == 1
    result = repo.pytester.runpytest_subprocess("--codereval-resume=run", "--codereval-execute-only", "-n0")
    assert result.ret == 1
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["FAILED*too-few::repeats-gate: 1 of 3 passed*"])
