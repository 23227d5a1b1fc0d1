"""Further attempts at a trial, each in a fresh sandbox, where the cause permits it; providers that limit the rate."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ..fakes import FakeAnthropic, Request, call, fault, repeat, say, turn
from ..fakes.turns import Entry
from ..plugin.conftest import PASS, Repo
from .models import AGENT, OPTIONS, Scripts, ask, cost, first_prompt

OWN_TRIES = 4
"""How often the agent itself makes a call that fails."""

WRITE = call("Bash", command="echo x > a.txt")
OVERLOADED = repeat(fault(529), OWN_TRIES)
RECORDED = {"record_cli": [{"tool": "relctl", "stdout": "ok\n"}]}

ONCE: dict[str, tuple[Entry, str]] = {
    # task: what the model's provider answers, the cause of the error; none of them is worth a second try
    "authentication": (fault(401), "authentication"),
    "refusal": (fault("refusal"), "refused"),
    "long-wait": (fault(529, retry_after=100_000), "overloaded"),
}


def _task(repo: Repo, name: str, **fields: Any) -> None:
    repo.task(name, **{"initial_prompt": name, "agent": AGENT, "success_criteria": [PASS], **fields})


def test_what_a_second_attempt_sees_and_what_gets_none(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    first = turn(
        call("Bash", command="relctl publish one; echo 1 >> prepared"), call("Bash", command="pwd > left; env > first")
    )
    second = turn(call("Bash", command="relctl publish two; test ! -e left && echo 2 >> prepared"))
    criteria = [
        {"type": "file_matches_regex", "description": "fresh", "path": "prepared", "pattern": r"\Aready\n2\n\Z"},
        {"type": "run_command", "description": "nothing left", "command": "test ! -e left"},
        {"type": "cli_called", "description": "published once", "tool": "relctl", "min_count": 1, "max_count": 1},
        {"type": "command_executed", "description": "of the last", "command_pattern": "test ! -e left"},
        {"type": "command_executed", "description": "not the first", "command_pattern": "env > first", "weight": 0},
    ]
    prepared = [{"command": "echo ready > prepared"}]
    sandbox = {"sandbox": RECORDED, "pre_run": prepared}
    _task(repo, "again", **sandbox, success_criteria=criteria, run_limits={"task_timeout": 60})
    _task(repo, "used-up")
    repo.script("scripted", {"crash": "as it would do again"})
    for name in ONCE:
        _task(repo, name, run_limits={"task_timeout": 60})
    plays: dict[str, list[Any]] = {name: [WRITE, answer, WRITE, say("done")] for name, (answer, _) in ONCE.items()}
    plays["again"] = [first, OVERLOADED, second, say("done")]
    plays["used-up"] = [OVERLOADED] * 4
    scripts = Scripts(plays)
    with FakeAnthropic([scripts], loop=True) as fake:
        ask(fake, monkeypatch)
        result = repo.run(*OPTIONS)
        charged = cost(fake.ledger)
    result.assert_outcomes(passed=1, errors=2 + len(ONCE))
    _check_second_attempt(repo)
    used_up = repo.record("used-up")
    assert (used_up["status"], used_up["cause"], len(used_up["earlier_attempts"])) == ("error", "overloaded", 2)
    assert scripts.calls("used-up") == 3 * OWN_TRIES
    assert repo.record("scripted")["earlier_attempts"] == []
    for name, (_, cause) in ONCE.items():
        record = repo.record(name)
        assert (name, record["status"], record["cause"]) == (name, "error", cause)
        assert (name, record["earlier_attempts"], scripts.calls(name)) == (name, [], 2)
    records = [repo.record(name) for name in ("again", "used-up", *ONCE)]
    assert sum(Decimal(str(record["spending"]["usage"]["cost_usd"] or 0)) for record in records) == charged
    result.stdout.fnmatch_lines([f"cost: ${charged}*"])


def _check_second_attempt(repo: Repo) -> None:
    record = repo.record("again")
    (earlier,) = record["earlier_attempts"]
    assert (earlier["attempt"], earlier["cause"], earlier["wait"]) == (1, "overloaded", 0)
    assert [one["argv"] for one in earlier["invocations"]["calls"]] == [["publish", "one"]]
    assert [one["argv"] for one in record["invocations"]["calls"]] == [["publish", "two"]]
    assert record["criteria"][-1]["verdict"] == "fail", "a command of the first attempt counts"
    assert [hook["exit_status"] for hook in (*earlier["pre_run"], *record["pre_run"])] == [0, 0]
    assert (record["trajectory"]["attempt"], record["trajectory"]["turns"]) == (2, 2)
    faults = [event["attempt"] for event in record["trajectory"]["events"] if event["kind"] == "ModelFault"]
    assert faults == [1] * OWN_TRIES
    calls = [event for event in record["trajectory"]["events"] if event["kind"] == "ModelCall"]
    assert [event["attempt"] for event in calls] == [1, 2, 2]
    assert record["spending"]["calls"] == 3
    assert record["spending"]["usage"]["output_tokens"] == sum(event["usage"]["output_tokens"] for event in calls)
    folder = repo.path / "run" / "trials" / "again" / "trial"
    assert (folder / "attempts" / "1" / "workspace" / "left").is_file()
    assert not (folder / "workspace" / "left").exists()
    first_place = (folder / "attempts" / "1" / "workspace" / "left").read_text().strip()
    assert not Path(first_place).exists(), "the sandbox of the first attempt is still there"
    case = next(case for case in repo.suite().iter("testcase") if case.get("name") == "again")
    assert ("codereval.attempts", "2") in {(p.get("name"), p.get("value")) for p in case.iter("property")}


LIMITED = """
from pytest_codereval import AgentError, AgentKind, Cause


class Limited:
    def start(self, job):
        self.sandbox = job.sandbox

    def run(self, prompt, deadline):
        self.sandbox.write_file("a.txt", b"x")
        raise AgentError(Cause.RATE_LIMITED, "not now", retry_after=300)

    def stop(self):
        return ()


def pytest_codereval_agents(config):
    return [AgentKind("limited", Limited)]
"""


def test_an_interrupt_ends_the_wait_for_the_next_attempt(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.file("conftest.py", LIMITED)
    _task(repo, "waits", agent={"type": "limited"}, post_run=[{"command": f"echo cleaned > {repo.path}/cleaned"}])
    (repo.path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(repo.path / "tmp"))
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--codereval-run-dir=run"],
        cwd=repo.path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        _until((repo.path / "run/trials/waits/trial/workspace/a.txt").exists)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == pytest.ExitCode.INTERRUPTED
    finally:
        process.kill()
        process.wait()
    record = repo.record("waits")
    assert (record["status"], record["cause"], record["message"]) == ("error", "interrupted", "interrupted")
    assert (repo.path / "cleaned").exists()
    assert [path.name for path in (repo.path / "tmp").iterdir() if "codereval" in path.name] == []


def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_one_at_once_and_all_hold_off_when_the_rate_is_limited(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"task-{number}" for number in range(3)]
    for name in names:
        _task(repo, name)
    limited: list[float] = []

    def play(request: Request) -> Entry:
        if len(request.body["messages"]) > 1:
            return say("done")
        if not limited:
            limited.append(time.monotonic())
            return fault(429, retry_after=1)
        return turn(WRITE, delay=0.1)

    with FakeAnthropic([play], loop=True) as fake:
        ask(fake, monkeypatch)
        result = repo.run(*OPTIONS, "-n2", "-o", "codereval_at_once=anthropic=1")
        asked = [(first_prompt(request), request.time) for request in fake.requests]
    result.assert_outcomes(passed=3)
    told = [prompt for prompt, _ in asked]
    changes = sum(1 for before, after in pairwise(told) if before != after)
    assert changes == len(names) - 1, f"conversations at the same time: {told}"
    after = [when for _, when in asked if when > limited[0]]
    assert min(after) >= limited[0] + 1
    state = json.loads((repo.path / "run/shared/turnstile-anthropic/state.json").read_text())
    assert (state["limit"], state["limited_in_a_row"]) == (1, 0), "a success lifts what a limit did"


def test_a_cap_that_only_retries_used_up_is_no_fail(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attempt stays within the cap by itself, so what ended the first one is what the trial ends with."""
    work = turn(call("Bash", command="echo x > a.txt"), usage={"input_tokens": 60, "output_tokens": 1})
    with FakeAnthropic([work, repeat(fault(529), 4), work, work]) as fake:
        ask(fake, monkeypatch)
        limits = {"max_input_tokens": 100}
        repo.task("capped", agent=AGENT, run_limits=limits, success_criteria=[PASS])
        repo.run(*OPTIONS).assert_outcomes(errors=1)
    record = repo.record("capped")
    assert (record["status"], record["cause"], record["stopped"]) == ("error", "overloaded", "max_input_tokens")
    assert len(record["earlier_attempts"]) == 1
