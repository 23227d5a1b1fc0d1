"""Agents of the user's own, by the hook, and which agent, model and prices the command line and the ini file choose."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents import of_plugin
from pytest_codereval.agents.of_plugin import AgentOfPlugin
from pytest_codereval.agents.registry import add_agents
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.trajectory.model import Event, Message

from ..plugin.conftest import PASS, Repo
from ..sandbox.processes import wait_until

CONFTEST = '''
"""An agent of one's own: it asks no model and writes a greeting in the language that the task names."""

import time
from typing import Literal

from pytest_codereval import AgentConfig, AgentError, AgentKind, Cause, Message, ModelCall, ToolCall, Usage
from pytest_codereval.sandbox.protocol import Phase

WORDS = {"en": "hello", "de": "hallo"}


class GreeterConfig(AgentConfig):
    """The keys of the task's agent block, beside those of all agents."""

    type: Literal["greeter"] = "greeter"
    language: Literal["en", "de"] = "en"


class Greeter:
    def start(self, job):
        if job.model is not None and job.model != "phrasebook":
            raise AgentError(Cause.CONFIGURATION, f"agent.model: the greeter has no model {job.model!r}")
        self.job = job
        self.turns = 0

    def run(self, prompt, deadline):
        if not self.job.admit(True):
            return
        self.turns += 1
        now = time.time()
        yield ModelCall(f"turn-{self.turns}", self.job.model, Usage(0, 0, 0, 0, 0.0), started=now, ended=now)
        command = f"echo {WORDS[self.job.config.language]} > a.txt"
        allowed = deadline - time.monotonic()
        done = self.job.sandbox.run(["/bin/sh", "-c", command], phase=Phase.AGENT, timeout=allowed)
        yield ToolCall(
            id=f"call-{self.turns}",
            name="Bash",
            parameters={"command": command},
            status="error" if done.exit_status else "success",
            output=done.stdout_text + done.stderr_text,
            exit_status=done.exit_status,
            started=now,
            ended=time.time(),
        )
        if done.timed_out:
            raise AgentError(Cause.TURN_TIMEOUT, "the greeter's time was up")
        yield Message("assistant", f"I have written a greeting: {prompt}", time.time())

    def stop(self):
        return ()


def pytest_codereval_agents(config):
    return [AgentKind("greeter", Greeter, GreeterConfig)]
'''

BROKEN = """
import sys

import pytest

from pytest_codereval import AgentConfig, AgentError, AgentKind, Cause, Message, ModelCall, ToolCall, Usage


class Config(AgentConfig):
    how: str = ""


def tell_garbage():
    yield Message("assistant", "fine so far", 1.0)
    yield {"role": "assistant"}


def raise_late():
    yield Message("assistant", "fine so far", 1.0)
    raise RuntimeError("a mistake in the agent")


RUNS = {
    "garbage": tell_garbage,
    "raises": raise_late,
    "no-iterator": lambda: None,
    "exits": lambda: sys.exit(0),
    "skips": lambda: pytest.skip("as if it were not to be judged"),
    "unwritable": lambda: [ToolCall("1", "Bash", {"command": {"a", "set"}}, "success")],
    "negative": lambda: [ModelCall("1", "m", Usage(-5, 0, 0, 0, 0.0))],
    "unevaluated": lambda: (_ for _ in ()).throw(AgentError(Cause.BUDGET_SPENT, "the budget is none of its business")),
}


class Broken:
    def start(self, job):
        self.how = job.config.how
        if self.how == "start":
            raise ValueError("a mistake at the start")
        self.sandbox = job.sandbox

    def run(self, prompt, deadline):
        self.sandbox.write_file("a.txt", b"as if all were well")
        return RUNS.get(self.how, list)()

    def stop(self):
        if self.how == "late":
            return [{"no": "event"}, ModelCall("cut", "m", Usage(7, 0, 0, 1), complete=False)]
        if self.how == "stop":
            raise KeyError("a mistake at the end")


def pytest_codereval_agents(config):
    return [AgentKind("broken", Broken, Config)]
"""

BROKEN_MESSAGES = {
    "garbage": "it told {'role': 'assistant'}, which is no event",
    "raises": "run() raised RuntimeError: a mistake in the agent (",
    "no-iterator": "run() raised TypeError",
    "exits": "run() raised SystemExit: 0",
    "skips": "run() raised Skipped: as if it were not to be judged",
    "unwritable": "it told a ToolCall whose parameters is",
    "negative": "it told a ModelCall whose usage is",
    "unevaluated": "the budget is none of its business",
    "start": "start() raised ValueError: a mistake at the start",
    "stop": "stop() raised KeyError: 'a mistake at the end'",
    "late": "it told {'no': 'event'}, which is no event",
}


def test_an_agent_of_the_root_conftest_runs_with_keys_of_its_own(repo: Repo) -> None:
    repo.file("conftest.py", CONFTEST)
    german = [{"type": "file_contains", "description": "greets", "path": "a.txt", "includes": ["hallo"]}]
    ran = [{"type": "command_executed", "description": "ran", "command_pattern": "echo hallo", "require_success": True}]
    agent = {"type": "greeter", "language": "de", "model": "phrasebook"}
    repo.task("german", agent=agent, success_criteria=german + ran, run_limits={"max_turns": 1, "max_total_tokens": 5})
    repo.task("other", agent={"type": "greeter", "model": "another"})
    repo.task("unknown", agent={"type": "greeter", "langage": "de"})
    result = repo.run("--continue-on-collection-errors")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*unknown.yaml:6:*langage*language*", "*the greeter has no model 'another'*"])
    record = repo.record("german")
    assert (record["agent"], record["model"], record["trajectory"]["turns"]) == ("greeter", "phrasebook", 1)
    assert record["trajectory"]["final_answer"] == "I have written a greeting: greet"
    assert (record["spending"]["usage"]["cost_usd"], record["spending"]["cost_complete"]) == (0.0, True)
    assert repo.record("other")["cause"] == "configuration"


def test_the_command_line_chooses_agent_and_model(repo: Repo) -> None:
    repo.file("conftest.py", CONFTEST)
    repo.task("scripted", agent={"type": "script", "steps": [{"say": "nothing"}]}, success_criteria=[PASS])
    repo.run("--codereval-agent=greeter", "--codereval-model=phrasebook").assert_outcomes(passed=1)
    record = repo.record("scripted")
    assert (record["agent"], record["model"]) == ("greeter", "phrasebook")


def test_a_broken_agent_is_an_error_of_its_own_and_has_a_record(repo: Repo) -> None:
    repo.file("conftest.py", BROKEN)
    for how in BROKEN_MESSAGES:
        repo.task(how, agent={"type": "broken", "how": how}, success_criteria=[PASS])
    repo.task("works", agent={"type": "broken", "how": "works"}, success_criteria=[PASS])
    result = repo.run("-o", "codereval_patience=0")
    result.assert_outcomes(passed=1, errors=len(BROKEN_MESSAGES))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    for how, message in BROKEN_MESSAGES.items():
        record = repo.record(how)
        assert (record["status"], record["cause"]) == ("error", "agent_crash"), how
        assert "the agent 'broken'" in record["message"]
        assert message in record["message"]
        assert {criterion["verdict"] for criterion in record["criteria"]} == {"not_evaluated"}
        assert len(record["earlier_attempts"]) == (0 if how == "start" else 1), how
    assert repo.record("works")["spending"]["cost_complete"] is False, "nobody told that no model was asked"
    for how in BROKEN_MESSAGES.keys() - {"start"}:
        assert repo.record(how)["spending"]["cost_complete"] is False, how
    assert repo.record("late")["spending"]["usage"]["input_tokens"] == 14, "in two attempts"
    events = repo.record("raises")["trajectory"]["events"]
    told = [event["text"] for event in events if event["attempt"] == 2 and event["kind"] == "Message"]
    assert told == ["greet", "fine so far"]
    assert "(" + str(repo.path / "conftest.py") in repo.record("raises")["message"]


STRANGE = {
    "nan": '{"a": NaN}',
    "infinite": '{"a": 1e999}',
    "deep": '{"a": ' * 700 + "1" + "}" * 700,
}


def test_what_a_program_tells_does_no_harm_to_the_record(repo: Repo) -> None:
    line = '{"type":"tool_use","tool_id":"t","tool_name":"run_shell_command","parameters":%s}\n'
    for name, parameters in STRANGE.items():
        repo.file(
            f"tasks/{name}.jsonl", '{"type":"init"}\n' + line % parameters + '{"type":"result","status":"success"}'
        )
        argv = ["cat", str(repo.path / f"tasks/{name}.jsonl")]
        repo.task(name, agent={"type": "command", "command": argv, "parser": "gemini"}, success_criteria=[PASS])
    result = repo.run("-o", "codereval_patience=0")
    result.assert_outcomes(errors=len(STRANGE))
    for name in STRANGE:
        record = repo.record(name)
        assert (record["status"], record["cause"]) == ("error", "agent_crash"), name
        assert "it told a ToolCall whose parameters is" in record["message"]
        assert record["trajectory"]["events"][0]["text"] == "greet"


TWO = """
from pytest_codereval import AgentKind


class One:
    pass


class Other:
    pass


def pytest_codereval_agents(config):
    return {kinds}
"""


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ('[AgentKind("mine", One), AgentKind("mine", Other)]', "*'mine'*conftest.One*conftest.Other*"),
        ('[AgentKind("codex", One)]', "*'codex' of conftest.One*pytest-codereval has one of that name*"),
        ('[AgentKind("mine", One), One]', "*pytest_codereval_agents*expected*AgentKind*One*"),
        ('[AgentKind("mine", One, One)]', "*'mine' of conftest.One*config*AgentConfig*"),
        ('AgentKind("mine", One)', "*pytest_codereval_agents*expected*list*AgentKind*"),
    ],
)
def test_agents_that_cannot_be_added_end_the_session_before_it_begins(
    pytester: pytest.Pytester, kinds: str, message: str
) -> None:
    pytester.makeconftest(TWO.format(kinds=kinds))
    try:
        result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    finally:
        add_agents(())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])
    result.stderr.no_fnmatch_line("*Traceback*")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--codereval-agent=antropic"], "*--codereval-agent*'antropic'*did you mean 'anthropic'*"),
        (["-o", "codereval_agent=codx"], "*ini codereval_agent*'codx'*did you mean 'codex'*"),
        (["--codereval-agent="], "*--codereval-agent*name of an agent*"),
        (["--codereval-model="], "*--codereval-model*name of a model*"),
        (["--codereval-budget-usd=0"], "*--codereval-budget-usd*more than 0*"),
        (["--codereval-budget-usd=nan"], "*--codereval-budget-usd*more than 0*"),
        (["-o", "codereval_prices=m 1"], "ini codereval_prices: 'm 1': expected MODEL INPUT OUTPUT*"),
        (["-o", "codereval_at_once=anthropic=0"], "*ini codereval_at_once*'anthropic=0'*anthropic=4*"),
        (["-o", "codereval_at_once=antropic=1"], "*ini codereval_at_once*'antropic=1'*did you mean 'anthropic'*"),
        (["-o", "codereval_patience=-1"], "*ini codereval_patience*'-1'*0 or more*"),
    ],
)
def test_wrong_options_and_settings_end_with_4(pytester: pytest.Pytester, arguments: list[str], message: str) -> None:
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: {message}"])


class Endless:
    """Goes on without an end, telling things or not; `let_go` ends it all the same, after the test."""

    def __init__(self, tells: bool) -> None:
        self.tells = tells
        self.let_go = False
        self.admitted: bool | None = None

    def start(self, job: Any) -> None:
        self.job = job

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        yield Message("assistant", "begun")
        while not self.let_go:
            if self.tells:
                yield Message("assistant", "more")
            time.sleep(0.005)
        self.admitted = self.job.admit(True)

    def stop(self) -> tuple[()]:
        return ()


@pytest.mark.parametrize("tells", [True, False])
def test_an_agent_that_never_stops_is_left_behind(tells: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_plugin, "GRACE", 0.1)
    endless = Endless(tells)
    agent = AgentOfPlugin("endless", "here", lambda: endless)
    agent.start(_job())
    events = agent.run("go", clock.monotonic() + 0.2)
    with pytest.raises(AgentError) as caught:
        for _ in events:
            pass
    assert caught.value.cause is Cause.TURN_TIMEOUT
    with contextlib.nullcontext() if tells else pytest.raises(AgentError, match=r"stop\(\) did not end in time"):
        assert list(agent.stop()) == []
    endless.let_go = True
    if not tells:
        wait_until(lambda: endless.admitted is not None)
    assert not endless.admitted, "an agent that was left behind may ask a model"


def _job() -> Any:
    from pytest_codereval.agents.protocol import Job
    from pytest_codereval.agents.skills.projected import Projection

    nothing: Any = None
    return Job(task=nothing, config=nothing, sandbox=nothing, artifacts=Path(), skills=Projection())
