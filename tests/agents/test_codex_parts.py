"""Where Codex's program is found, how its settings are written, what is made of the records it keeps."""

from __future__ import annotations

import json
import os
import platform
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_codereval.agents.codex import TheAgent
from pytest_codereval.agents.codex.installation import find_program
from pytest_codereval.agents.codex.rollouts import read_threads, with_contents
from pytest_codereval.agents.codex.settings import tool_lists
from pytest_codereval.agents.codex.toml import document
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.task.agent_models import CodexAgent
from pytest_codereval.trajectory.checking import checked
from pytest_codereval.trajectory.model import Event, ModelCall, ToolCall

MAIN = "01a22d34-54bc-7521-a658-000000000001"
HELPER = "01a22d34-54bc-7521-a658-000000000002"
DEEPER = "01a22d34-54bc-7521-a658-000000000003"
NATIVE = f"{platform.machine()}-unknown-linux-musl/bin/codex"


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def launcher(root: Path) -> Path:
    """What npm makes: a link in `bin` to the launcher."""
    script = program(root / "node_modules/@openai/codex/bin/codex.js", "#!/usr/bin/env node\n")
    link = root / "bin/codex"
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(script)
    return link.parent


@pytest.mark.parametrize(
    "place",
    [
        "node_modules/@openai/codex-linux-x64/vendor",
        "node_modules/@openai/codex/node_modules/@openai/codex-linux-x64/vendor",
        "node_modules/@openai/codex/vendor",
    ],
    ids=["beside", "within", "of old"],
)
def test_the_native_program_beside_the_launcher_is_taken(tmp_path: Path, place: str) -> None:
    path = launcher(tmp_path)
    program(tmp_path / place / "other64-unknown-linux-musl/bin/codex")
    native = program(tmp_path / place / NATIVE)
    assert find_program(str(path)) == native.resolve()


def test_a_program_that_is_no_launcher_is_taken_itself(tmp_path: Path) -> None:
    real = program(tmp_path / "real" / "codex-1.2")
    (tmp_path / "codex").symlink_to(real)
    assert find_program(str(tmp_path)) == real.resolve()


def test_a_missing_program_is_an_error_that_says_how_to_install_it(tmp_path: Path) -> None:
    for path in (str(tmp_path), str(launcher(tmp_path))):
        with pytest.raises(AgentError, match="npm install -g @openai/codex") as caught:
            find_program(path)
        assert caught.value.cause is Cause.AGENT_UNAVAILABLE


_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(_TEXT, _VALUES, max_size=4))
def test_settings_are_read_as_they_were_meant(settings: dict[str, Any]) -> None:
    assert tomllib.loads(document(settings)) == settings


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"effort": "huge"}, "'minimal', 'low', 'medium', 'high', 'xhigh'"),
        ({"codex_config": {"model": "x"}}, "agent.model"),
        ({"codex_config": {"model_providers.mine.base_url": "x"}}, "set by the harness"),
        ({"codex_config": {"mcp_servers": {"a": {}}}}, "agent.mcp_servers"),
        ({"codex_config": {"a..b": 1}}, "dotted name"),
        ({"codex_config": {"a": {"b": [None]}}}, "expected a value"),
        ({"context_window": 1000}, "at least 32768"),
    ],
)
def test_a_mistake_in_the_block_is_told_with_its_key(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        CodexAgent(**config)
    (error,) = caught.value.errors()
    assert said in error["msg"]
    assert error["loc"][0] == next(iter(config))


def test_tools_are_taken_away_where_codex_has_a_switch() -> None:
    names = ("Bash", "WebSearch", "WebFetch", "Agent", "mcp__calc__add", "Bash(rm *)", "Glob")
    tools = tool_lists(CodexAgent(disallowed_tools=names))
    assert tools.settings == {"features.shell_tool": False, "web_search": "disabled", "agents.enabled": False}
    assert tools.mcp == {"calc": ["add"]}
    assert tools.not_enforced == {"disallowed_tools": ["Bash(rm *)", "Glob"]}
    assert tool_lists(CodexAgent(allowed_tools=("WebSearch",))).settings == {}
    assert tool_lists(CodexAgent(allowed_tools=("Bash",))).settings == {"web_search": "disabled"}
    assert tool_lists(CodexAgent()).not_enforced == {}


def done(thread: str, kind: str, number: int, **fields: Any) -> dict[str, Any]:
    item = {"type": kind, "id": f"call_{number}", "status": "completed", **fields}
    times = {"started_at_ms": 1000 * number, "completed_at_ms": 1000 * number + 500}
    return {"type": "event_msg", "payload": {"type": "item_completed", "thread_id": thread, "item": item, **times}}


def record(home: Path, thread: str, parent: str | None, *lines: object) -> Path:
    meta = {"id": thread, "parent_thread_id": parent}
    path = home / "sessions/2026/11/30" / f"rollout-{thread}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = {"timestamp": "2026-11-30T16:00:00.5Z", "type": "session_meta", "payload": meta}
    texts = [line if isinstance(line, str) else json.dumps(line) for line in (head, *lines)]
    path.write_text("\n".join(texts), encoding="utf-8")
    return path


def test_sub_agents_lie_under_each_other(tmp_path: Path) -> None:
    said = {"content": [{"type": "text", "text": "help me"}]}
    end = {"type": "event_msg", "payload": {"type": "task_complete", "last_agent_message": "ok", "completed_at": 9}}
    record(tmp_path, MAIN, None)
    record(
        tmp_path,
        HELPER,
        MAIN,
        {"type": "session_meta", "payload": {"id": MAIN}},
        done(MAIN, "CommandExecution", 1, command=["/bin/bash", "-lc", "of the parent"], exit_code=0),
        done(HELPER, "UserMessage", 2, **said),
        done(HELPER, "CommandExecution", 3, command=["/bin/bash", "-lc", "ls"], aggregated_output="a\n", exit_code=0),
        done(HELPER, "McpToolCall", 4, server="s", tool="t", arguments={"a": 1}, error={"message": "no"}),
        done(HELPER, "Reasoning", 5),
        "{ torn",
        end,
    )
    record(tmp_path, DEEPER, HELPER)
    main, helper, deeper = sorted(read_threads(tmp_path), key=lambda thread: thread.id)
    assert (main.parent, main.calls) == (None, [])
    agent, shell, mcp = helper.told(MAIN)
    assert (agent.id, agent.name, agent.parameters) == (HELPER, "Agent", {"prompt": "help me"})
    assert (agent.output, agent.status, agent.ended, agent.parent_id) == ("ok", "success", 9.0, None)
    assert (shell.name, shell.parameters, shell.output, shell.exit_status) == ("Bash", {"command": "ls"}, "a\n", 0)
    assert (shell.started, shell.ended, shell.parent_id) == (3.0, 3.5, HELPER)
    assert (mcp.name, mcp.status, mcp.output, mcp.parent_id) == ("mcp__s__t", "error", "no", HELPER)
    (inner,) = deeper.told(MAIN)
    assert (inner.parent_id, inner.status) == (HELPER, "unknown")


class Gateway:
    """One that still has to tell of a call when the agent is stopped."""

    closed = False

    def settle(self) -> None:
        """Nothing is under way."""

    def events(self) -> Iterator[Event]:
        yield ModelCall("late", "m", parent_id=HELPER)

    def close(self) -> None:
        self.closed = True


def stopped(home: Path) -> tuple[Any, Gateway]:
    agent: Any = TheAgent()
    agent._job = SimpleNamespace(sandbox=SimpleNamespace(home=home))
    agent._gateway = gateway = Gateway()
    agent._thread_id = MAIN
    return agent.stop(), gateway


def test_the_work_of_a_sub_agent_that_is_told_of_last_is_read(tmp_path: Path) -> None:
    shell = done(HELPER, "CommandExecution", 3, command=["/bin/bash", "-lc", "ls"], exit_code=0)
    record(tmp_path / ".codex", HELPER, MAIN, shell)
    told, gateway = stopped(tmp_path)
    assert [event.parameters.get("command") for event in told if isinstance(event, ToolCall)] == [None, "ls"]
    assert gateway.closed


def test_the_gateway_is_closed_also_when_what_it_tells_is_not_wanted(tmp_path: Path) -> None:
    told, gateway = stopped(tmp_path)
    next(told)
    told.close()
    assert gateway.closed


def test_forged_times_are_none(tmp_path: Path) -> None:
    shell = json.dumps(done(HELPER, "CommandExecution", 3, command="ls")).replace("3000", "1e999").replace("3500", "-1")
    end = '{"type": "event_msg", "payload": {"type": "task_complete", "completed_at": NaN}}'
    record(tmp_path, HELPER, MAIN, shell, end)
    (thread,) = read_threads(tmp_path)
    agent, call = map(checked, thread.told(MAIN))
    assert isinstance(agent, ToolCall)
    assert isinstance(call, ToolCall)
    assert (agent.ended, call.started, call.ended) == (agent.started, 0.0, 0.0)


def test_contents_come_to_the_calls_that_wrote_them(tmp_path: Path) -> None:
    first = {"/w/a": {"type": "add", "content": "1\n"}, "/w/b": {"type": "delete", "content": "x"}}
    diff = "@@ -1,2 +1,2 @@\n same\n-old\n+new\n\\ No newline at end of file\n"
    second = {"/w/a": {"type": "update", "unified_diff": diff, "move_path": None}}
    record(
        tmp_path,
        MAIN,
        None,
        done(MAIN, "FileChange", 1, changes=first),
        done(MAIN, "FileChange", 2, changes={"/w/unknown": {"type": "add"}}),
        done(MAIN, "FileChange", 3, changes=second),
    )
    (thread,) = read_threads(tmp_path)
    told = [
        ToolCall("run-1-item_1-0", "Write", {"file_path": "/w/a"}, "success"),
        ToolCall("run-1-item_1-1", "Edit", {"file_path": "/w/b", "kind": "delete"}, "success"),
        ToolCall("run-1-item_4-0", "Edit", {"file_path": "/w/a"}, "success"),
    ]
    found = {call.id: call.parameters for call in with_contents(told, thread.patches)}
    assert found == {
        "run-1-item_1-0": {"file_path": "/w/a", "content": "1\n"},
        "run-1-item_1-1": {"file_path": "/w/b", "kind": "delete"},
        "run-1-item_4-0": {"file_path": "/w/a", "old_string": "same\nold\n", "new_string": "same\nnew\n"},
    }


def test_a_hostile_folder_of_records_is_read_without_harm(tmp_path: Path) -> None:
    secret = tmp_path / "elsewhere.jsonl"
    secret.write_text(record(tmp_path / "x", HELPER, MAIN).read_text(encoding="utf-8"), encoding="utf-8")
    home = tmp_path / "home"
    good = record(home, DEEPER, MAIN, *[{"type": "event_msg", "payload": payload} for payload in ({}, [], None, 5)])
    (good.parent / "rollout-link.jsonl").symlink_to(secret)
    os.mkfifo(good.parent / "rollout-fifo.jsonl")
    (good.parent / "rollout-folder.jsonl").mkdir()
    (good.parent / "rollout-blank.jsonl").write_bytes(b"\xff\n" + b"[" * 100_000)
    (home / "sessions/2027").symlink_to(tmp_path / "x/sessions/2026")
    item: dict[str, Any] = {"type": "CommandExecution", "command": {"a": 1}, "status": [], "exit_code": "0"}
    strange = [{"type": "item_completed", "thread_id": HELPER, "item": item, "started_at_ms": "soon"}]
    record(home, HELPER, MAIN, *[{"type": "event_msg", "payload": payload} for payload in strange])
    assert {thread.id for thread in read_threads(home)} == {DEEPER, HELPER}
    assert read_threads(tmp_path / "nowhere") == []
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "sessions").symlink_to(home / "sessions")
    assert read_threads(tmp_path / "linked") == []
