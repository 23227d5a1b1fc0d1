"""The real Codex in a sandbox, its model played by a fake."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.sandbox import landlock
from pytest_codereval.trajectory.model import ToolCall
from tests.agents.codex_run import CLASSIC, KEY, Stage, put_codex_on_path
from tests.fakes import FakeOpenAI, call, fault, repeat, say

Play = Callable[..., Stage]

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "calc", "version": "1"}}
    elif asked["method"] == "tools/list":
        result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("add", "forget")]}
    elif asked["method"] == "tools/call":
        given = asked["params"]["arguments"]
        result = {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Make a stage whose model plays these turns."""
    put_codex_on_path(monkeypatch)
    with contextlib.ExitStack() as stack:

        def make(*turns: Any, **options: Any) -> Stage:
            fake = stack.enter_context(FakeOpenAI(turns, key=KEY, **options))
            stage = Stage(tmp_path, fake, monkeypatch)
            stack.callback(stage.close)
            return stage

        yield make


@pytest.mark.parametrize("model", [CLASSIC, None], ids=["classic tools", "tools as JavaScript"])
def test_a_task_is_told_in_the_common_vocabulary_and_shims_survive_login_shells(play: Play, model: str | None) -> None:
    stage = play(
        call("Bash", command="uip deploy 'a b' \"$HOME\"; bash -lc 'uip nested'; env"),
        call("Write", file_path="new.txt", content="one\nmore\n"),
        call("Edit", file_path="new.txt", old_string="one", new_string="two"),
        call("Bash", command="uip again; exit 3"),
        say("all done"),
    )
    stage.shim("uip", 'echo "shim $1 $2"')
    stage.start(model=model, disallowed_tools=["WebSearch", "Bash(rm *)"], allowed_tools=["Bash"])
    assert stage.ask().failure is None
    told = stage.end()
    first, write, edit, second = told.calls()
    assert first.parameters == {"command": "uip deploy 'a b' \"$HOME\"; bash -lc 'uip nested'; env"}
    assert "shim deploy a b\nshim nested" in first.output
    assert KEY not in first.output
    assert (first.status, first.exit_status) == ("success", 0)
    new = f"{stage.sandbox.workspace}/new.txt"
    assert (write.name, write.status) == ("Write", "success")
    assert write.parameters == {"file_path": new, "content": "one\nmore\n"}
    assert (edit.name, edit.parameters["file_path"]) == ("Edit", new)
    assert (edit.parameters["old_string"], edit.parameters["new_string"]) == ("one\nmore\n", "two\nmore\n")
    assert (second.output, second.status, second.exit_status) == ("shim again \n", "error", 3)
    assert told.texts == ["all done"]
    charged = [(one.input_tokens, one.cache_read_tokens, one.output_tokens) for one in stage.fake.ledger]
    used = [(one.usage.input_tokens, one.usage.cache_read_tokens, one.usage.output_tokens) for one in told.model_calls]
    assert used == charged
    assert "web_search" not in json.dumps(stage.fake.requests[0].body)
    described = stage.described()
    assert described["not_enforced"] == {"disallowed_tools": ["Bash(rm *)"], "allowed_tools": ["Bash"]}
    assert described["version"][0].isdigit()


def test_the_agent_gets_what_its_task_gives_and_nothing_of_the_surroundings(play: Play) -> None:
    stage = play(
        call("mcp__calc__add", a=2, b=3),
        call("Skill", skill="greet"),
        say("done"),
    )
    skill = stage.folder / "plugin" / "skills" / "greet"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: greet\ndescription: how WE greet\n---\nSay hello.\n", encoding="utf-8")
    (stage.folder / "server.py").write_text(SERVER, encoding="utf-8")
    root = stage.sandbox.root
    (root / ".git").mkdir()
    (root / "AGENTS.md").write_text("TEXT OF THE PARENT", encoding="utf-8")
    (root / ".agents" / "skills" / "strange").mkdir(parents=True)
    (root / ".agents" / "skills" / "strange" / "SKILL.md").write_text("---\nname: strange\ndescription: d\n---\n")
    stage.sandbox.write_file("AGENTS.md", b"TEXT OF THE WORKSPACE")
    stage.start(
        plugins=[{"type": "local", "path": "plugin"}],
        mcp_servers={"calc": {"command": sys.executable, "args": [str(stage.folder / "server.py")]}},
        disallowed_tools=["mcp__calc__forget", "Agent"],
        system_prompt='Be "brief"\nand kind, \\ always 😀',
        effort="high",
        context_window=50_000,
        codex_config={"skills.bundled.enabled": False, "features.goals": False},
    )
    told = stage.ask()
    assert told.failure is None
    add, read = told.calls()
    assert (add.name, add.parameters, add.output, add.status) == ("mcp__calc__add", {"a": 2, "b": 3}, "5", "success")
    assert "skills/greet/SKILL.md" in str(read.parameters["command"])
    assert "Say hello." in read.output
    body = stage.fake.requests[0].body
    said = json.dumps(body, ensure_ascii=False)
    assert json.dumps('Be "brief"\nand kind, \\ always 😀', ensure_ascii=False)[1:-1] in said
    assert "how WE greet" in said
    assert "TEXT OF THE WORKSPACE" in said
    for foreign in ("TEXT OF THE PARENT", "strange", "skill-installer", "spawn_agent", "forget", "create_goal"):
        assert foreign not in said
    assert body["reasoning"]["effort"] == "high"


def test_a_second_prompt_goes_on_with_the_conversation(play: Play) -> None:
    stage = play(
        call("Bash", command="echo 1"), say("first"), call("Write", file_path="b.txt", content="x\n"), say("second")
    )
    stage.start()
    stage.ask("one")
    told = stage.ask("two")
    assert told.failure is None
    assert told.texts == ["first", "second"]
    assert [call.name for call in stage.end().calls()] == ["Bash", "Write"]
    assert told.calls("Write")[0].parameters["content"] == "x\n"
    assert stage.fake.first_text(stage.fake.requests[-1].body) == "one"
    assert "first" in json.dumps(stage.fake.requests[-1].body)


@pytest.mark.parametrize("model", [CLASSIC, None], ids=["classic tools", "tools as JavaScript"])
def test_the_work_of_a_sub_agent_lies_under_its_call(play: Play, model: str | None) -> None:
    sub_is_done = threading.Event()

    def wait_for_it(_: object) -> Any:
        sub_is_done.wait(60)
        return say("all done")

    def done(_: object) -> Any:
        sub_is_done.set()
        return say("the helper is done")

    stage = play(
        call("Agent", prompt="please help"),
        call("Bash", command="until [ -e ended ]; do sleep 0.02; done"),
        wait_for_it,
        sub_turns=[call("Bash", command="echo from the helper; touch ended"), done],
    )
    stage.start(model=model)
    assert stage.ask().failure is None
    told = stage.end()
    (agent,) = told.calls("Agent")
    assert agent.parameters["prompt"] == "please help"
    assert agent.parent_id is None
    of_helper = [one for one in told.calls() if one.parent_id == agent.id]
    assert [(one.name, one.output, one.exit_status) for one in of_helper] == [("Bash", "from the helper\n", 0)]
    of_fake = [stage.fake.is_sub_agent(request) for request in stage.fake.requests]
    assert sorted(one.parent_id == agent.id for one in told.model_calls) == sorted(of_fake)
    assert {one.parent_id for one in told.model_calls} == {agent.id, None}
    assert told.texts[0] == "all done"


def test_a_lost_record_of_a_sub_agent_is_lost_evidence(play: Play) -> None:
    others = 'find "$CODEX_HOME/sessions" -name \'*.jsonl\' ! -name "*$CODEX_THREAD_ID*"'
    gone = f'until [ "$({others})" ]; do sleep 0.02; done; {others} -delete'
    stage = play(
        call("Agent", prompt="please help"),
        call("Bash", command=gone),
        say("nothing happened"),
        sub_turns=[say("helped")],
    )
    stage.start()
    stage.ask()
    stage.sandbox.reap()
    with pytest.raises(AgentError, match="records of its sub-agents are gone") as caught:
        list(stage.agent.stop())
    assert caught.value.cause is Cause.EVIDENCE_LOST


@pytest.mark.parametrize(
    ("turns", "cause", "status"),
    [
        ([repeat(fault(429, retry_after=0.1), 9)], Cause.RATE_LIMITED, 429),
        ([fault("max_tokens")], Cause.OUTPUT_CUT, None),
        ([repeat(fault("refusal"), 9)], Cause.REFUSED, None),
        ([fault("context_full")], Cause.CONTEXT_FULL, None),
    ],
    ids=["429", "max_tokens", "refusal", "context_full"],
)
def test_a_fault_of_the_model_is_the_cause_of_the_failure(
    play: Play, turns: list[Any], cause: Cause, status: int | None
) -> None:
    stage = play(call("Bash", command="echo begun"), *turns)
    stage.start()
    told = stage.ask()
    assert told.failure is not None
    assert told.failure.cause is cause
    assert told.commands == ["echo begun"]
    assert told.faults[-1].cause is cause
    assert status is None or told.faults[-1].status == status
    assert len(stage.fake.requests) <= 4


def test_a_call_that_goes_well_after_a_fault_makes_up_for_it(play: Play) -> None:
    stage = play(fault("cut", after=3), fault(500), say("recovered"))
    stage.start()
    told = stage.ask()
    assert told.failure is None
    assert told.texts == ["recovered"]
    assert len(told.faults) == 2


def test_nothing_outlives_the_deadline(play: Play) -> None:
    stage = play(call("Bash", command="(setsid sleep 600 &) ; nohup sleep 600 & echo begun"), fault("hang"))
    stage.start()
    told = stage.ask(seconds=4)
    assert told.failure is not None
    assert told.failure.cause is Cause.TURN_TIMEOUT
    assert told.commands == ["(setsid sleep 600 &) ; nohup sleep 600 & echo begun"]
    stage.end()


def test_the_harness_ends_the_run_by_admitting_no_further_call(play: Play) -> None:
    asked: list[bool] = []

    def admit(main: bool) -> bool:
        asked.append(main)
        return len(asked) <= 2

    stage = play(*[call("Bash", command=f"echo {number} >> log") for number in range(5)])
    stage.start(admit)
    told = stage.ask()
    assert told.failure is None
    assert len(stage.fake.requests) == 2
    assert asked[:3] == [True] * 3
    assert len(told.model_calls) == 2


def test_plan_lets_nothing_be_written(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    stage = play(call("Bash", command="touch made; echo tried"), say("planned"))
    stage.start(permission_mode="plan")
    told = stage.ask()
    assert told.failure is None
    assert "Read-only file system" in told.calls("Bash")[0].output
    assert not (stage.sandbox.workspace / "made").exists()


@pytest.mark.skipif(landlock.abi() < landlock.FILES, reason="the kernel's Landlock does not restrict files")
def test_plan_is_refused_where_codex_cannot_make_its_own_sandbox(play: Play) -> None:
    with pytest.raises(AgentError, match=r"agent\.permission_mode.*'tempdir'") as caught:
        play(say("nothing")).start(permission_mode="plan")
    assert caught.value.cause is Cause.CONFIGURATION


@pytest.mark.parametrize(
    ("sandbox", "config", "message"),
    [
        ({"record_cli": [{"tool": "rg"}]}, {}, "rg cannot be recorded"),
        ({"record_cli": [{"tool": "uip"}]}, {"permission_mode": "plan"}, "permission_mode"),
        ({}, {"mcp_servers": {"far": {"type": "sse", "url": "http://127.0.0.1:9"}}}, "mcp_servers.far"),
        ({}, {"mcp_servers": {"near": {"command": "no-such-program"}}}, "near"),
    ],
    ids=["rg", "plan", "sse", "broken server"],
)
def test_what_cannot_be_done_is_an_error_before_anything_is_spent(
    play: Play, sandbox: dict[str, Any], config: dict[str, Any], message: str
) -> None:
    stage = play(say("never asked"))
    with pytest.raises(AgentError, match=message):
        stage.start(sandbox=sandbox, **config)
        raise stage.ask().failure or AssertionError("it ran")
    assert stage.fake.requests == []


def test_a_call_under_way_when_the_program_ended_stays_open(play: Play) -> None:
    stage = play(call("Bash", command="sleep 600; echo late", yield_time_ms=250), say("done"))
    stage.start()
    assert stage.ask().failure is None
    (late,) = stage.end().calls("Bash")
    assert isinstance(late, ToolCall)
    assert (late.status, late.exit_status, late.ended) == ("unknown", None, None)
