"""What is still looked at when an agent failed: shown apart, and the trial ends as it would without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.sandbox import drivers

from ..sandbox.processes import wait_until
from .conftest import FAIL, PASS, Repo

BUBBLEWRAP = drivers.driver("bubblewrap").availability()

DRIVERS = [
    "tempdir",
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(not BUBBLEWRAP.usable, reason=f"no bubblewrap: {BUBBLEWRAP.reason}")
    ),
]

WRITE = {"write": {"path": "a.txt", "content": "hello\n"}}
ENDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # cause: the agent's last step, the task's limits beside those of PATCHES
    "agent_crash": ({"crash": "out of memory"}, {"task_timeout": 120}),
    "turn_timeout": ({"sleep": 60}, {"task_timeout": 120}),
    "task_timeout": ({"sleep": 60}, {"turn_timeout": 120}),
}
HEADING = "evidence after the failure (diagnostic only, counts for nothing)"

PATCHES = """
from pytest_codereval import trial
from pytest_codereval.criteria import file_exists
from pytest_codereval.running import attempt

trial.TASK_TIMEOUT = attempt.TURN_TIMEOUT = 1.0
true = file_exists.check

def check(criterion, evidence):
    if criterion.path == "raises.txt":
        raise RuntimeError("a fault of the checker")
    return true(criterion, evidence)

file_exists.check = check
"""

USED = """
from pytest_codereval import ModelCall, Usage

def events(line):
    return ModelCall(line, "some-model", Usage(100, 0, 0, 50))
"""


def command(text: str, **fields: Any) -> dict[str, Any]:
    """A run_command criterion that says that it only reads."""
    return {"type": "run_command", "description": text[:20], "command": text, "read_only": True, **fields}


def alive(mark: str) -> list[int]:
    """The processes, zombies aside, that have `mark` in their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line, state = (entry / "cmdline").read_bytes(), (entry / "stat").read_text()
            except OSError:
                continue
            if mark.encode() in line and b"pytest" not in line and ") Z" not in state:
                found.append(int(entry.name))
    return found


@pytest.fixture
def mark() -> str:
    """A number of seconds that no other process sleeps."""
    return f"{8000 + os.getpid() % 1000}.{time.time_ns() % 10**9:09d}"


def _end(repo: Repo, name: str, cause: str, criteria: list[dict[str, Any]], **fields: Any) -> None:
    last, limits = ENDS[cause]
    repo.script(name, WRITE, last, **{"success_criteria": criteria, "run_limits": limits, **fields})


def _verdicts(record: dict[str, Any]) -> list[tuple[str, float | None]]:
    return [(each["verdict"], each["score"]) for each in record["post_failure_criteria"]]


def test_the_trial_ends_as_it_would_without(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.file("patches.py", PATCHES)
    monkeypatch.setenv("PYTEST_PLUGINS", "patches")
    raises = {**PASS, "description": "its checker raises", "path": "raises.txt"}
    unmarked = command(f"touch {repo.path}/ran", read_only=False)
    seen = [command("test -f missing.txt"), raises, unmarked, command(f"grep -c hello a.txt >> {repo.path}/marked")]
    for cause in ENDS:
        _end(repo, f"{cause}-with", cause, [FAIL, *seen], post_run=[{"command": f"echo x >> {repo.path}/post"}])
        _end(repo, f"{cause}-without", cause, [FAIL])
    repo.task("prepared-badly", pre_run=[{"command": "false"}], success_criteria=[command("true")])
    result = repo.run("-v", "-n1")
    result.assert_outcomes(errors=7)
    none, error = ("not_evaluated", None), ("error", None)
    for cause in ENDS:
        found, without = repo.record(f"{cause}-with"), repo.record(f"{cause}-without")
        same = ("status", "cause", "message", "score")
        assert (
            [found[key] for key in same] == [without[key] for key in same] == ["error", cause, found["message"], None]
        )
        assert found["criteria"][0] == without["criteria"][0]
        assert {each["verdict"] for each in found["criteria"]} == {"not_evaluated"}
        made = [("fail", 0.0), ("fail", 0.0), error, none, ("pass", 1.0)]
        assert _verdicts(found) == ([none] * 5 if cause == "task_timeout" else made)
        assert "time: " in found["post_failure_criteria"][0]["reason"] or cause != "task_timeout"
    assert [each["verdict"] for each in repo.record("prepared-badly")["criteria"]] == ["not_evaluated"]
    assert repo.record("prepared-badly")["post_failure_criteria"] == []
    assert not (repo.path / "ran").exists()
    assert (repo.path / "marked").read_text() == "1\n1\n"
    assert (repo.path / "post").read_text() == "x\nx\nx\n"
    _check_reports(repo, result)


def _check_reports(repo: Repo, result: pytest.RunResult) -> None:
    result.stdout.fnmatch_lines(["pass rate: 0.0%"])
    text = result.stdout.str()
    assert text.count(f"    {HEADING}:\n") == 6, "with -v"
    hints = [case.get("message") for case in repo.suite().findall(".//skipped") if "read_only" in str(case.attrib)]
    assert len(hints) == 2
    crash = {}
    for case in repo.suite().iter("testcase"):
        if case.get("classname", "").endswith("agent_crash-with"):
            (skipped,) = case.findall("skipped")
            crash[case.get("name")] = str(skipped.get("message"))
    assert list(crash.values())[:3] == ["diagnostic: fail", "diagnostic: fail", "diagnostic: error"]
    assert list(crash.values())[3].startswith("not evaluated: not run after a failure; `read_only: true` would")
    assert list(crash.values())[4] == "diagnostic: pass"
    (body,) = [str(e.text) for e in repo.suite().findall(".//testcase[@name='agent_crash-with']/error")]
    lines = body.splitlines()
    assert lines[:2] == ["the agent crashed: out of memory", HEADING]
    assert "raised RuntimeError: a fault of the checker" in body
    (late,) = [str(e.text) for e in repo.suite().findall(".//testcase[@name='task_timeout-with']/error")]
    assert "\n  none: time: the task used up its task_timeout" in late
    properties = repo.suite().findall(".//testcase[@name='file_exists-it-is-missing']/properties/property")
    assert ("codereval.diagnostic", "fail") in {(p.get("name"), p.get("value")) for p in properties}


@pytest.mark.parametrize("driver", DRIVERS)
def test_commands_see_what_graders_see_and_leave_nothing(
    repo: Repo, driver: str, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.file("short.py", "from pytest_codereval.running import diagnosis\ndiagnosis.OWN_TIME = 1.0\n")
    monkeypatch.setenv("PYTEST_PLUGINS", "short")
    repo.file("tasks/data/expected.txt", "hello\n")
    tool = {"tool": "uip", "responses": [{"when": {"verb": "known"}}], "unmatched": "fail"}
    criteria = [
        command(f"setsid sleep {mark} >/dev/null 2>&1 & exit 0"),
        command('cmp a.txt "$TASK_DIR/data/expected.txt" && cmp a.txt "$REFERENCE_DIR/expected.txt"'),
        command("! command -v uip"),
        {
            "type": "reference_comparison",
            "description": "same",
            "agent_file": "a.txt",
            "reference_file": "expected.txt",
        },
        {"type": "file_contains", "description": "of the row", "path": "a.txt", "includes": ["${row.text}"]},
        command("grep -q '${row.text}' a.txt"),
    ]
    _end(
        repo,
        "rows",
        "agent_crash",
        criteria,
        dataset={"rows": [{"id": "one", "text": "hello"}]},
        reference={"directory": "data"},
        sandbox={"driver": driver, "record_cli": [tool]},
    )
    slow = command(f"sleep {mark} & sleep {mark}", timeout=900)
    _end(repo, "slow", "agent_crash", [slow, PASS], run_limits=None, sandbox={"driver": driver})
    repo.run().assert_outcomes(errors=2)
    assert alive(mark) == []
    seen = repo.record("rows")
    assert seen["cause"] == "agent_crash"
    assert [each["verdict"] for each in seen["post_failure_criteria"]] == ["pass"] * 6 + ["not_evaluated"]
    assert seen["task"]["resolved"]["success_criteria"][5]["read_only"] is True
    cut, found = repo.record("slow")["post_failure_criteria"]
    assert (cut["verdict"], cut["score"], found["verdict"]) == ("not_evaluated", None, "pass")
    assert cut["reason"].startswith("time: ")


def test_an_interrupt_of_the_diagnosis_hides_nothing(repo: Repo, mark: str) -> None:
    started, cleaned = repo.path / "started", repo.path / "cleaned"
    slow = command(f"sleep {mark} & echo > {started}; sleep {mark}", timeout=900)
    _end(repo, "crash", "agent_crash", [slow, PASS], post_run=[{"command": f"echo > {cleaned}"}])
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--codereval-run-dir=run"],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: started.exists() or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == pytest.ExitCode.INTERRUPTED
    finally:
        process.kill()
    assert alive(mark) == []
    record = repo.record("crash")
    assert (record["status"], record["cause"], record["message"]) == ("error", "agent_crash", "out of memory")
    assert _verdicts(record) == [("not_evaluated", None), ("pass", 1.0)]
    assert record["post_failure_criteria"][0]["reason"] == "the diagnosis was interrupted"
    assert cleaned.exists()


def test_caps_keep_their_verdicts_and_only_the_last_attempt_is_looked_at(repo: Repo) -> None:
    repo.file("tasks/used.py", USED)
    limits: dict[str, dict[str, Any]] = {"dollars": {"max_usd": 0.01}, "tokens": {"max_output_tokens": 49}}
    criteria = [FAIL, command(f"echo x >> {repo.path}/looked")]
    for name in ("dollars", "tokens", "again"):
        agent = {
            "type": "command",
            "model": "some-model",
            "command": ["sh", "-c", "echo 1; exit 3"],
            "parser": "used.py:events",
        }
        repo.task(name, agent=agent, success_criteria=criteria, run_limits=limits.get(name))
    options = ("-o", "codereval_patience=0", "-o", "codereval_prices=some-model 100 500 200 10")
    repo.run(*options).assert_outcomes(failed=2, errors=1)
    for name in limits:
        record = repo.record(name)
        assert [each["verdict"] for each in record["criteria"]] == ["fail", "pass"]
        assert (record["status"], record["post_failure_criteria"]) == ("failed", [])
    again = repo.record("again")
    assert (again["cause"], len(again["earlier_attempts"])) == ("agent_crash", 1)
    assert _verdicts(again) == [("fail", 0.0), ("pass", 1.0)]
    assert (repo.path / "looked").read_text() == "x\n" * 3
