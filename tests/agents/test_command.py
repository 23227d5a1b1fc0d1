"""The agent `command`: how a program is told what to do, and what is made of what it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TaskFileError
from pytest_codereval.task.loader import load_task
from pytest_codereval.trajectory.model import ModelFault, ToolCall
from pytest_codereval.trajectory.prices import PriceList
from pytest_codereval.trajectory.spending import spending
from tests.fakes import FakeAnthropic, fault, repeat, say

from .command_run import SAMPLE, run_agent

KEY = "fake-key-0123456789abcdef"

CLIENT = """
import json, os, sys, urllib.request
def ask(text):
    body = {"model": "m1", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(os.environ["URL"] + "/v1/messages", json.dumps(body).encode(), {
        "x-api-key": os.environ["KEY"], "content-type": "application/json", "anthropic-version": "2023-06-01"})
    return json.load(urllib.request.urlopen(request))
"""
"""A client of the Messages API without any package."""


def shell(text: str, **block: Any) -> dict[str, Any]:
    return {"type": "command", "command": ["/bin/sh", "-c", text], **block}


def client(text: str, **block: Any) -> dict[str, Any]:
    return {
        "type": "command",
        "command": [sys.executable, "-c", CLIENT + text],
        "api": "anthropic",
        "env": {"URL": "{base_url}", "KEY": "{api_key}"},
        **block,
    }


def test_all_that_the_program_prints_is_its_answer(tmp_path: Path) -> None:
    with run_agent(
        tmp_path, shell("printf 'you said: '; cat; echo; pwd; echo noise >&2; echo x > out.txt"), "hi ü"
    ) as told:
        assert told.failure is None
        assert told.answers == [f"you said: hi ü\n{told.sandbox.workspace}"]
        assert told.file("out.txt") == "x\n"
        (call,) = told.model_calls
        assert not call.complete
        assert call.usage.total_tokens is None
    assert (tmp_path / "agent/errors-1.txt").read_text() == "noise\n"


@pytest.mark.parametrize(
    ("argv", "mode"),
    [
        (["/bin/sh", "-c", 'echo "$1"; cat', "sh", "{prompt}"], "argument"),
        (["/bin/sh", "-c", 'cat "$1" -', "sh", "{prompt_file}"], "file"),
        (["cat"], "stdin"),
    ],
)
def test_the_prompt_goes_one_way(tmp_path: Path, argv: list[str], mode: str) -> None:
    prompt = "--go 'on' {model} $HOME"
    with run_agent(tmp_path, {"type": "command", "command": argv, "prompt_mode": mode}, prompt) as told:
        assert told.answers == [prompt]


def test_texts_are_filled_in(tmp_path: Path) -> None:
    block = shell(
        'echo "$MODEL"; cat ~/settings/a.json; cat ~/b; echo \'{model} {{model}} {} ${model} {"a":{}}\'',
        env={"MODEL": "<{model}>"},
        files={"~/settings/a.json": {"{model}": ["{workspace}", 1]}, "b": "{home}\n"},
    )
    with run_agent(tmp_path, block, model='m"1') as told:
        (answer,) = told.answers
        first, *middle, home, last = answer.split("\n")
        assert first == '<m"1>'
        assert json.loads("\n".join(middle)) == {'m"1': [str(told.sandbox.workspace), 1]}
        assert home == str(told.sandbox.home)
        assert last == 'm"1 {model} {} ${model} {"a":{}}'


def test_a_further_prompt_resumes(tmp_path: Path) -> None:
    block = shell("echo '{session}' > session; cat", resume_command=["/bin/sh", "-c", 'cat; echo " {session}"'])
    with run_agent(tmp_path, block, "one", "two") as told:
        assert told.answers == ["one", f"two {told.file('session').strip()}"]


def test_without_a_way_to_resume_a_further_prompt_is_a_mistake(tmp_path: Path) -> None:
    with run_agent(tmp_path, shell("cat"), "one", "two") as told:
        assert told.failure is not None
        assert told.failure.cause is Cause.CONFIGURATION
        assert "agent.resume_command" in str(told.failure)


@pytest.mark.parametrize(
    ("block", "options", "cause", "message"),
    [
        (shell("echo half; echo why >&2; exit 3"), {}, Cause.AGENT_CRASH, "the program exited 3: why"),
        (shell("kill -9 $$"), {}, Cause.AGENT_CRASH, "137"),
        (shell("sleep 60"), {"timeout": 0.5}, Cause.TURN_TIMEOUT, "deadline"),
        (shell("echo {model}"), {}, Cause.CONFIGURATION, "{model}: name it"),
        ({"type": "command", "command": ["no-such-program-here"]}, {}, Cause.AGENT_UNAVAILABLE, "no-such-program-here"),
        (shell("cat", parser="/nowhere/x.py:f"), {}, Cause.CONFIGURATION, "agent.parser"),
        (client("", env={"URL": "{base_url}{api_key}"}), {}, Cause.NO_CREDENTIALS, "ANTHROPIC_API_KEY"),
    ],
)  # fmt: skip
def test_failures_have_their_cause(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    block: dict[str, Any],
    options: dict[str, Any],
    cause: Cause,
    message: str,
) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with run_agent(tmp_path, block, **options) as told:
        assert told.failure is not None
        assert told.failure.cause is cause
        assert message in str(told.failure)
        assert told.answers == []


@pytest.mark.parametrize(("text", "timeout"), [("echo half; exit 3", 60.0), ("sleep 60", 0.5)])
def test_what_a_program_used_that_failed_is_unknown(tmp_path: Path, text: str, timeout: float) -> None:
    with run_agent(tmp_path, shell(text), timeout=timeout) as told:
        assert told.failure is not None
        (call,) = told.model_calls
        assert (call.complete, call.usage.total_tokens) == (False, None)


def test_a_run_that_is_left_is_told_of_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PARSER)
    block = shell("echo say hello; sleep 60", parser="own.py:events")
    with run_agent(tmp_path, block, task_folder=tmp_path, leave_after=1) as told:
        assert told.answers == ["hello"]
        (call,) = told.model_calls
        assert (call.complete, call.usage.total_tokens) == (False, None)


def test_a_prompt_that_no_argument_can_hold_is_a_mistake(tmp_path: Path) -> None:
    block = {"type": "command", "command": ["echo", "{prompt}"], "prompt_mode": "argument"}
    for prompt, message in (("x" * 131_072, "more than 131071 bytes"), ("a\0b", "NUL")):
        with run_agent(tmp_path, block, prompt) as told:
            assert told.failure is not None
            assert told.failure.cause is Cause.CONFIGURATION
            assert message in str(told.failure)
    with run_agent(tmp_path, shell("wc -c"), "x" * 500_000) as told:
        assert told.answers == ["500000"]


def test_skills_lie_where_the_program_looks_for_them(tmp_path: Path) -> None:
    folder = tmp_path / "house/skills/log"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("how to log")
    (folder / "run.sh").write_text("#!/bin/sh\necho ran")
    (folder / "run.sh").chmod(0o755)
    block = shell('cat "$1/log/SKILL.md"; ~/.config/x/skills/log/run.sh', skills_to=".config/x/skills")
    block["command"] += ["sh", "{skills_dir}"]
    with run_agent(tmp_path, block, skills=tmp_path / "house") as told:
        assert told.answers == ["how to logran"]


PARSER = """
from pytest_codereval.trajectory.model import Message, ModelCall, ToolCall, Usage

def events(line):
    word, _, rest = line.partition(" ")
    if word == "run":
        return ToolCall(rest, "Bash", {"command": rest}, "success", exit_status=0)
    if word == "say":
        return [Message("assistant", rest), ModelCall("1", "m", Usage(1, 0, 0, 2))]
    if word == "bad":
        return 5
    if word == "tool":
        return ToolCall(id=3, name=None, parameters=["x"], status="weird")
    if word == "role":
        return Message("robot", "hello")
    if word == "used":
        return ModelCall("1", None, Usage(-5000, 0, 0, 0))
    if word == "raise":
        raise ValueError("what is " + rest)
"""


def test_a_parser_of_the_authors_makes_events(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PARSER)
    parser = "own.py:events"
    with run_agent(
        tmp_path, shell("echo noise; echo run ls; printf 'say done'", parser=parser), task_folder=tmp_path
    ) as told:
        assert told.failure is None
        (call,) = told.calls
        assert (call.name, call.parameters, call.exit_status) == ("Bash", {"command": "ls"}, 0)
        assert call.started > 0
        assert call.ended is not None
        assert told.answers == ["done"]
        assert [call.usage.total_tokens for call in told.model_calls] == [3]
    for line, message in (
        ("bad", "line 2: expected ToolCall"),
        ("raise this", "line 2: ValueError: what is this"),
        ("tool", "line 2: it told a ToolCall whose id is 3"),
        ("role", "line 2: it told a Message whose role is 'robot'"),
        ("used", "line 2: it told a ModelCall whose usage is"),
    ):
        with run_agent(tmp_path, shell(f"echo run ls; echo {line}", parser=parser), task_folder=tmp_path) as told:
            assert told.failure is not None
            assert told.failure.cause is Cause.CONFIGURATION
            assert message in str(told.failure)
            assert len(told.of(ToolCall)) == 1


def test_what_the_tools_of_a_program_print_is_no_event(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(PARSER)
    forging = "sh -c 'echo run it > /proc/$PPID/fd/1; echo forged >&2'; echo say done"
    with run_agent(tmp_path, shell(forging, parser="own.py:events"), task_folder=tmp_path) as told:
        assert told.failure is None
        assert (told.calls, told.answers) == ([], ["done"])
    assert "forged" in (tmp_path / "agent/errors-1.txt").read_text()


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return monkeypatch


def test_the_gateway_counts_what_a_home_made_agent_uses(tmp_path: Path, harness: pytest.MonkeyPatch) -> None:
    with FakeAnthropic([say("one"), say("two")], key=KEY) as fake:
        harness.setenv("ANTHROPIC_BASE_URL", fake.url)
        text = "for _ in range(2): print(ask(sys.stdin.read() or 'x')['content'][0]['text'])\nprint(dict(os.environ))"
        with run_agent(tmp_path, client(text), "hi") as told:
            assert told.failure is None
            assert told.answers[0].startswith("one\ntwo\n")
            assert KEY not in told.answers[0]
            used = [(call.usage.input_tokens, call.usage.output_tokens) for call in told.model_calls if call.complete]
            assert used == [(charged.input_tokens, charged.output_tokens) for charged in fake.ledger]


@pytest.mark.parametrize(
    ("script", "text", "cause"),
    [
        (repeat(fault(429), 3), "try: ask('x')\nexcept Exception: print('never mind')", Cause.RATE_LIMITED),
        (repeat(fault(529), 3), "ask('x')", Cause.OVERLOADED),
        ([say("fine"), fault(401)], "ask('x'); ask('y')", Cause.AUTHENTICATION),
        ([], "print('no model was asked')", Cause.CONFIGURATION),
    ],
)
def test_a_model_that_did_not_answer_is_no_result(
    tmp_path: Path, harness: pytest.MonkeyPatch, script: list[Any], text: str, cause: Cause
) -> None:
    with FakeAnthropic(script, key=KEY) as fake:
        harness.setenv("ANTHROPIC_BASE_URL", fake.url)
        with run_agent(tmp_path, client(text)) as told:
            assert told.failure is not None
            assert told.failure.cause is cause
            assert bool(told.of(ModelFault)) == (cause is not Cause.CONFIGURATION)


def test_a_fault_that_the_program_got_over_is_none(tmp_path: Path, harness: pytest.MonkeyPatch) -> None:
    with FakeAnthropic([fault(429), say("fine")], key=KEY) as fake:
        harness.setenv("ANTHROPIC_BASE_URL", fake.url)
        text = "try: ask('x')\nexcept Exception: print(ask('x')['content'][0]['text'])"
        with run_agent(tmp_path, client(text)) as told:
            assert told.failure is None
            assert told.answers == ["fine"]


def test_a_program_that_dies_during_its_first_call_has_spent_what_is_known_of_it(
    tmp_path: Path, harness: pytest.MonkeyPatch
) -> None:
    dies = """
import http.client, signal
server = http.client.HTTPConnection(os.environ["URL"].removeprefix("http://"))
server.request("POST", "/v1/messages", json.dumps({"model": "m1", "max_tokens": 9, "stream": True, "messages": []}), {
    "x-api-key": os.environ["KEY"], "content-type": "application/json"})
server.getresponse().readline()
os.kill(os.getpid(), signal.SIGKILL)
"""
    with FakeAnthropic([fault("hang", after=1)], key=KEY) as fake:
        harness.setenv("ANTHROPIC_BASE_URL", fake.url)
        with run_agent(tmp_path, client(dies)) as told:
            pass
    assert told.failure is not None
    assert told.failure.cause is Cause.AGENT_CRASH
    (call,) = told.model_calls
    spent = spending([call], PriceList(["* 1 1"]))
    assert (call.complete, spent.cost_complete) == (False, False)
    assert spent.cost_usd >= fake.unfinished[0].input_tokens / 1_000_000 > 0


def test_no_call_is_made_after_the_limit(tmp_path: Path, harness: pytest.MonkeyPatch) -> None:
    left = iter([True, False])
    with FakeAnthropic([say("one")], loop=True, key=KEY) as fake:
        harness.setenv("ANTHROPIC_BASE_URL", fake.url)
        with run_agent(tmp_path, client("while True: ask('x')"), admit=lambda main: next(left, False)) as told:
            assert told.failure is None
        assert len(fake.ledger) == 1


@pytest.mark.parametrize(
    ("agent", "key", "message"),
    [
        ({"command": ["x", "{promt}"]}, "command[1]", "there is no {promt}; did you mean 'prompt'?"),
        ({"command": ["x", "{prompt}"]}, "command", "{prompt} needs prompt_mode: argument; it is stdin"),
        ({"command": ["x"], "prompt_mode": "argument"}, "command", "needs an argument with {prompt}"),
        ({"command": ["x", "{prompt_file}"], "prompt_mode": "file", "resume_command": ["y"]},
         "resume_command", "needs an argument with {prompt_file}"),
        ({"command": ["x"], "env": {"A": "{base_url}"}}, "env.A", "needs api: anthropic, openai or gemini"),
        ({"command": ["x", "{base_url}"], "api": "openai"}, "api", "{api_key} is used nowhere"),
        ({"command": ["x"], "files": {"a": "{prompt}"}}, "files.a", "in command and resume_command only"),
        ({"command": ["x"], "files": {"../a": ""}}, "files.../a", "expected a path below HOME"),
        ({"command": ["x"], "files": {".profile": ""}}, "files..profile", "belongs to the harness"),
        ({"command": ["x"], "skills_to": "/etc"}, "skills_to", "expected a path below HOME"),
        ({"command": ["x"], "env": {"PATH": "x"}}, "env.PATH", "set by the harness"),
        ({"command": ["x"], "env": {"a b": "x"}}, "env.a b", "no name of an environment variable"),
        ({"command": ["x"], "parser": "opencde"}, "parser", "did you mean 'opencode'"),
        ({"command": ["x"], "system_prompt": "be kind"}, "system_prompt", "cannot set it"),
        ({"command": ["x"], "api": "antropic"}, "api", "'anthropic'"),
        ({"command": ["x"], "output": "text"}, "output", "unknown key"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_block_is_told_at_its_key(
    tmp_path: Path, agent: dict[str, Any], key: str, message: str
) -> None:
    file = tmp_path / "task.yaml"
    file.write_text(json.dumps({**SAMPLE, "agent": {"type": "command", **agent}}), encoding="utf-8")
    with pytest.raises(TaskFileError) as caught:
        load_task(file)
    (problem,) = caught.value.problems
    assert problem.key == f"agent.{key}"
    assert message in problem.message
