"""Claude Code: the real program in a sandbox, against the fake API, through the gateway."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_codereval import clock
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.trajectory.model import ToolCall
from tests.fakes import FakeAnthropic, call, fault, repeat, say, turn

from .claude_run import KEY, Stage, need_claude

Play = Callable[..., Stage]

MCP_SERVER = """
import json, sys
TOOL = {"name": "add", "description": "adds", "inputSchema": {"type": "object"}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        version = asked["params"]["protocolVersion"]
        server = {"name": "calc", "version": "1"}
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    elif asked["method"] == "tools/list":
        answer["result"] = {"tools": [TOOL]}
    elif asked["method"] == "tools/call":
        given = asked["params"]["arguments"]
        answer["result"] = {"content": [{"type": "text", "text": str(given["a"] + given["b"])}]}
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Makes the stage of one agent whose model plays the given turns."""
    need_claude()
    stages: list[Stage] = []
    fakes: list[FakeAnthropic] = []

    def make(*turns: Any, **options: Any) -> Stage:
        fake = FakeAnthropic(turns, key=KEY, **options)
        fakes.append(fake.__enter__())
        stages.append(Stage(tmp_path, fake, monkeypatch))
        return stages[-1]

    yield make
    for stage in stages:
        stage.close()
    for fake in fakes:
        fake.close()


def arguments_of_all_processes() -> set[str]:
    found: set[str] = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.update(file.read_text("utf-8", "replace").split("\0"))
    return found


def plugin(folder: Path) -> dict[str, str]:
    skill = folder / "skills" / "helper" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: helper\ndescription: it helps\n---\nTHE BODY OF THE SKILL\n", encoding="utf-8")
    manifest = folder / ".claude-plugin" / "plugin.json"
    manifest.parent.mkdir()
    manifest.write_text('{"name": "aid", "version": "1.0.0", "description": "d"}', encoding="utf-8")
    return {"type": "local", "path": str(folder)}


def test_a_task_is_done_with_shims_skills_and_servers_and_told_in_the_common_vocabulary(
    play: Play, tmp_path: Path
) -> None:
    stage = play(
        turn(
            say("I begin."),
            call("Bash", command="tool plain; bash -lc 'tool login'; exit 3"),
            call("Bash", command="env; tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/[0-9]*/cmdline | tr '\\0' ' '"),
            call("Bash", command="true | grep nothing"),
            call("Write", file_path="{{cwd}}/a.txt", content="one\n"),
            call("Edit", file_path="{{cwd}}/a.txt", old_string="one", new_string="two"),
            call("Skill", skill="aid:helper"),
            call("mcp__calc__add", a=2, b=3),
        ),
        say("All done."),
    )
    sandbox = stage.make_sandbox()
    (sandbox.bin_dir / "tool").write_text(f'#!/bin/sh\necho "$@" >> {sandbox.home}/calls\n', encoding="utf-8")
    (sandbox.bin_dir / "tool").chmod(0o755)
    (tmp_path / "server.py").write_text(MCP_SERVER, encoding="utf-8")
    secret = "only-the-server-may-know-this"
    server = {"command": sys.executable, "args": [str(tmp_path / "server.py")], "env": {"SERVER_KEY": secret}}
    stage.start(plugins=[plugin(tmp_path / "aid")], mcp_servers={"calc": server}, system_prompt="SPEAK LIKE THIS")
    told = stage.ask("Do what I say.")

    assert told.failure is None
    assert told.texts == [("assistant", "I begin."), ("assistant", "All done.")]
    assert (sandbox.workspace / "a.txt").read_text() == "two\n"
    assert (sandbox.home / "calls").read_text() == "plain\nlogin\n"
    ends = [(one.name, one.status, one.exit_status) for one in told.calls()]
    assert ends == [
        ("Bash", "error", 3),
        ("Bash", "success", 0),
        ("Bash", "error", 1),
        ("Write", "success", None),
        ("Edit", "success", None),
        ("Skill", "success", None),
        ("mcp__calc__add", "success", None),
    ]
    assert told.calls("Write")[0].parameters == {"file_path": f"{sandbox.workspace}/a.txt", "content": "one\n"}
    assert told.calls("mcp__calc__add")[0].output == "5"
    assert all(one.ended is not None and one.ended >= one.started for one in told.calls())
    assert [one.usage.input_tokens for one in told.model_calls] == [one.input_tokens for one in stage.fake.ledger]

    seen = told.calls("Bash")[1].output
    assert "CLAUDE_CONFIG_DIR=" in seen
    assert KEY not in seen
    assert secret not in "".join(line for line in seen.splitlines() if "mcp-config" in line)
    assert "Do what I say" not in seen
    asked = json.dumps([request.body for request in stage.fake.requests])
    assert "SPEAK LIKE THIS" in asked
    assert "THE BODY OF THE SKILL" in asked
    account = stage.account()
    assert re.fullmatch(r"\d+\.\d+\.\d+", account["version"])
    assert account["configuration"]["mcp_servers"] == [{"name": "calc", "status": "connected", "source": "dynamic"}]
    kept = (stage.artifacts / "output-1.jsonl").read_text() + json.dumps(account)
    assert KEY not in kept


def test_calls_and_usage_of_sub_agents_lie_under_their_tool_call(play: Play) -> None:
    stage = play(
        call("Agent", description="d", prompt="work", subagent_type="general-purpose", run_in_background=False),
        say("It has worked."),
        sub_turns=[call("Bash", command="echo below"), say("my report")],
    )
    stage.start()
    told = stage.ask()

    assert told.failure is None
    agent, below = told.calls()
    assert (agent.name, agent.status, agent.parent_id) == ("Agent", "success", None)
    assert "my report" in agent.output
    assert (below.parameters["command"], below.output, below.parent_id) == ("echo below", "below", agent.id)
    assert [one.parent_id for one in told.model_calls] == [None, agent.id, agent.id, None]
    assert told.texts[-1] == ("assistant", "It has worked.")
    assert len(told.texts) == 1


def test_a_second_prompt_goes_on_with_the_conversation(play: Play) -> None:
    stage = play(say("first answer"), say("second answer"))
    stage.start(system_prompt="OUR RULES")
    assert stage.ask("--help " + "x" * 200_000).failure is None
    home = stage.sandbox.home  # type: ignore[union-attr]
    hook = {"hooks": {"UserPromptSubmit": [{"hooks": [{"type": "command", "command": f"touch {home}/hooked"}]}]}}
    for name in ("settings.json", "settings.local.json", "remote-settings.json"):
        (home / ".claude" / name).write_text(json.dumps(hook), encoding="utf-8")
    (home / ".claude-harness" / "system-prompt.txt").write_text("OTHER RULES", encoding="utf-8")
    told = stage.ask("and now?")

    assert told.failure is None
    assert [text for role, text in told.texts if role == "assistant"] == ["first answer", "second answer"]
    first, second = (json.dumps(request.body["messages"]) for request in stage.fake.requests)
    assert "--help xxx" in first
    assert all(part in second for part in ("--help xxx", "first answer", "and now?"))
    assert "OUR RULES" in json.dumps(stage.fake.requests[1].body)
    assert not (home / "hooked").exists(), "what the agent writes into HOME is no setting of its program"


def test_nothing_but_the_workspace_says_how_to_work_and_the_gateway_stays_the_way(play: Play, tmp_path: Path) -> None:
    above = tmp_path / "ab+ove"
    (above / ".claude" / "rules").mkdir(parents=True)
    for place in (above, above / ".claude"):
        (place / "CLAUDE.md").write_text("FOREIGN WORDS\n", encoding="utf-8")
    (above / ".claude" / "rules" / "r.md").write_text("FOREIGN WORDS\n", encoding="utf-8")
    (above / "CLAUDE.local.md").write_text("FOREIGN WORDS\n", encoding="utf-8")
    stage = play(say("done"))
    sandbox = stage.make_sandbox(above)
    sandbox.write_file("CLAUDE.md", b"OUR OWN WORDS\n")
    elsewhere = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9", "ANTHROPIC_API_KEY": "other-key-0123"}
    sandbox.write_file(".claude/settings.json", json.dumps({"env": elsewhere}).encode())
    stage.start(setting_sources=["project", "local"], claude_settings={"env": {"MARK": "1"}})
    told = stage.ask()

    assert told.failure is None
    asked = json.dumps(stage.fake.requests[0].body)
    assert "OUR OWN WORDS" in asked
    assert "FOREIGN WORDS" not in asked


def test_what_goes_on_in_the_background_is_told_to_its_end_and_outputs_are_whole(play: Play) -> None:
    stage = play(
        turn(
            call("Bash", command="seq 1 20000"),
            call("Bash", command="sleep 0.5; echo behind; exit 4", run_in_background=True),
        ),
        say("wait"),
        say("seen"),
    )
    stage.start()
    told = stage.ask()

    assert told.failure is None
    assert told.calls()[0].output.splitlines() == [str(number) for number in range(1, 20_001)]
    behind = told.calls()[1]
    assert (behind.status, behind.exit_status, behind.output) == ("error", 4, "behind\n")
    started = [one for one in told.events if getattr(one, "id", None) == behind.id][1]
    assert (started.status, started.exit_status, started.ended) == ("unknown", None, None)  # type: ignore[union-attr]


def test_no_process_of_the_agent_outlives_its_end(play: Play) -> None:
    marks = {"10071.1", "10071.2", "10071.3"}
    one, two, three = sorted(marks)
    stage = play(call("Bash", command=f"setsid sleep {one} & nohup sleep {two} & sleep {three}"))
    stage.start()
    events = stage.agent.run("do it", clock.monotonic() + 60)
    for event in events:
        stage.told.events.append(event)
        if isinstance(event, ToolCall):
            break
    until = time.monotonic() + 60
    while not marks <= arguments_of_all_processes():
        assert time.monotonic() < until, "the command has not started"
        time.sleep(0.02)
    cast("Any", events).close()
    assert stage.sandbox is not None
    stage.sandbox.reap()
    assert not marks & arguments_of_all_processes()
    stage.told.events += stage.agent.stop()
    assert [call.complete for call in stage.told.model_calls] == [True]


@pytest.mark.parametrize(
    ("kind", "options", "cause"),
    [
        (429, {"retry_after": 7}, Cause.RATE_LIMITED),
        (500, {}, Cause.API_FAULT),
        ("cut", {"after": 4}, Cause.CONNECTION),
        ("html", {}, Cause.API_FAULT),
        ("refusal", {}, Cause.REFUSED),
        ("max_tokens", {}, Cause.OUTPUT_CUT),
        ("context_full", {}, Cause.CONTEXT_FULL),
        ("truncated_tool", {}, Cause.API_FAULT),
    ],
)
def test_faults_of_the_api_are_typed_and_never_an_answer(
    play: Play, kind: int | str, options: dict[str, Any], cause: Cause
) -> None:
    stage = play(*repeat(fault(kind, **options), 8))
    stage.make_sandbox(variables={"CLAUDE_CODE_MAX_RETRIES": "0"})
    stage.start()
    told = stage.ask()

    assert isinstance(told.failure, AgentError)
    assert told.failure.cause is cause
    assert told.failure.retry_after == options.get("retry_after")
    assert told.faults
    assert not [text for _, text in told.texts if "API Error" in text or "Prompt is too long" in text]


def test_after_a_fault_that_passes_the_run_is_a_success(play: Play) -> None:
    stage = play(fault("malformed_json"), fault(529), say("done"))
    stage.start()
    told = stage.ask()

    assert told.failure is None
    assert told.texts[-1] == ("assistant", "done")
    assert {one.cause for one in told.faults} >= {Cause.API_FAULT}


def test_the_cap_on_turns_ends_the_run_without_an_error(play: Play) -> None:
    stage = play(*repeat(call("Bash", command="echo on"), 9))
    stage.start(max_turns=2)
    told = stage.ask()

    assert told.failure is None
    assert [one.complete for one in told.model_calls] == [True, True]
    assert [one.output for one in told.calls()] == ["on", "on"]


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"claude_settings": {"permissions": {"allow": "Bash"}}}, "claude_settings: Claude Code finds them invalid"),
        ({"mcp_servers": {"gone": {"command": "/no/such/program"}}}, "mcp_servers: no connection to gone"),
    ],
)
def test_what_the_program_would_leave_out_in_silence_is_an_error(
    play: Play, config: dict[str, Any], expected: str
) -> None:
    stage = play(say("done"))
    stage.start(**config)
    told = stage.ask()

    assert told.failure is not None
    assert told.failure.cause is Cause.CONFIGURATION
    assert expected in str(told.failure)
    assert stage.account()["configuration"]["model"]


def test_a_prompt_that_reaches_no_model_is_an_error(play: Play) -> None:
    stage = play(say("done"))
    stage.start()
    told = stage.ask("/cost")

    assert told.failure is not None
    assert told.failure.cause is Cause.CONFIGURATION
    assert "reached no model" in str(told.failure)
    assert told.texts == []
