"""A recorded trial is told again; what it did is done anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause
from pytest_codereval.trajectory.model import Message, ModelCall, ToolCall

from .command_run import run_agent

OLD = "/tmp/cev-0/1a2b3c/t7"


def tool(number: int, name: str, status: str = "success", output: str = "then", **more: Any) -> dict[str, Any]:
    parent, exit_status = more.pop("parent_id", None), more.pop("exit_status", 0 if name == "Bash" else None)
    return {
        "kind": "ToolCall",
        "id": f"c{number}",
        "name": name,
        "parameters": more,
        "status": status,
        "output": output,
        "exit_status": exit_status,
        "ended": 1.0,
        "attempt": 2,
        "parent_id": parent,
    }


def said(role: str, text: str, attempt: int = 2) -> dict[str, Any]:
    return {"kind": "Message", "role": role, "text": text, "time": 1.0, "attempt": attempt}


def asked(number: int) -> dict[str, Any]:
    return {"kind": "ModelCall", "id": f"m{number}", "model": "m", "usage": {"input_tokens": 5}, "attempt": 2}


def put(tmp_path: Path, *events: dict[str, Any], agent: str = "codex", **changes: Any) -> dict[str, Any]:
    record = {
        "format": "codereval-trial",
        "version": 1,
        "agent": agent,
        "trajectory": {"attempt": 2, "events": list(events)},
        **changes,
    }
    (tmp_path / "record.json").write_text(json.dumps(record), encoding="utf-8")
    return {"type": "replay", "record": str(tmp_path)}


def test_commands_and_changes_of_files_are_carried_out(tmp_path: Path) -> None:
    block = put(
        tmp_path,
        said("assistant", "of the first attempt", attempt=1),
        said("user", "do it"),
        asked(1),
        tool(1, "Bash", command=f"pwd; echo one > {OLD}/workspace/a.txt; exit 3"),
        tool(2, "Write", file_path=f"{OLD}/workspace/new/b.txt", content="A A\n"),
        tool(3, "Edit", file_path="new/b.txt", old_string="A", new_string="B", replace_all=True),
        tool(4, "Edit", file_path="new/b.txt", new_string="top", insert_line=0),
        tool(5, "Edit", file_path="new/b.txt", old_string="nowhere", new_string="C"),
        tool(6, "Edit", file_path="a.txt", kind="delete"),
        tool(7, "Skill", skill="x"),
        said("assistant", "done"),
    )
    with run_agent(tmp_path, block) as told:
        assert told.failure is None
        workspace = str(told.sandbox.workspace)
        bash, write, edit, insert, missing, delete, skill = told.calls
        assert (bash.status, bash.exit_status, bash.output) == ("error", 3, f"{workspace}\n")
        assert bash.parameters["command"] == f"pwd; echo one > {workspace}/a.txt; exit 3"
        assert write.parameters["file_path"] == f"{workspace}/new/b.txt"
        assert [call.status for call in (write, edit, insert, delete)] == ["success"] * 4
        assert missing.status == "error"
        assert "0 times" in missing.output
        assert (skill.status, skill.output) == ("success", "then")
        assert told.file("new/b.txt") == "top\nB B\n"
        assert not (told.sandbox.workspace / "a.txt").exists()
        assert told.answers == ["done"]
        (call,) = told.model_calls
        assert (call.model, call.usage.total_tokens, call.usage.cost_usd) == (None, 0, 0.0)
        assert [type(event) for event in told.events[:3]] == [ModelCall, ToolCall, ToolCall]


def test_nothing_is_done_where_execute_is_off(tmp_path: Path) -> None:
    block = put(tmp_path, tool(1, "Bash", command="echo > a.txt"), tool(2, "Write", file_path="b", content=""))
    with run_agent(tmp_path, {**block, "execute": False}) as told:
        assert [(call.status, call.output) for call in told.calls] == [("success", "then")] * 2
        assert list(told.sandbox.workspace.iterdir()) == []


def test_what_was_refused_or_is_not_known_is_told_and_not_done(tmp_path: Path) -> None:
    block = put(
        tmp_path,
        tool(1, "Bash", status="error", exit_status=None, command="echo > a.txt"),
        tool(2, "Write", status="error", file_path="b.txt", content=""),
        tool(3, "Edit", file_path="c.txt"),
    )
    with run_agent(tmp_path, block) as told:
        refused, denied, unknown = told.calls
        assert (refused.status, denied.status, unknown.status) == ("error", "error", "success")
        assert refused.output == "then"
        assert "not carried out" in unknown.output
        assert list(told.sandbox.workspace.iterdir()) == []


@pytest.mark.parametrize(("agent", "expected"), [("claude-code", "sub"), ("codex", "")])
def test_the_directory_is_kept_as_the_recorded_agent_did(tmp_path: Path, agent: str, expected: str) -> None:
    block = put(
        tmp_path,
        tool(1, "Bash", command="mkdir sub; cd sub"),
        tool(2, "Bash", command="pwd", parent_id="c0"),
        tool(3, "Bash", command="pwd; false"),
        agent=agent,
    )
    with run_agent(tmp_path, block) as told:
        _, inner, outer = told.calls
        workspace = told.sandbox.workspace
        assert inner.output == f"{workspace}\n"
        assert inner.parent_id == "c0"
        assert outer.output == f"{workspace / expected}\n"
        assert outer.exit_status == 1


def test_each_prompt_goes_on_to_the_next_one_of_the_record(tmp_path: Path) -> None:
    block = put(
        tmp_path, said("user", "a"), said("assistant", "1"), said("user", "b"), said("assistant", "2"), agent="x"
    )
    with run_agent(tmp_path, block, "p", "q", "r") as told:
        assert [(event.role, event.text) for event in told.of(Message)] == [("assistant", "1"), ("assistant", "2")]


def test_a_call_that_was_told_twice_is_done_once(tmp_path: Path) -> None:
    begun = {**tool(1, "Bash", status="unknown", exit_status=None, command="echo x >> a.txt"), "ended": None}
    block = put(tmp_path, begun, tool(1, "Bash", command="echo x >> a.txt"))
    with run_agent(tmp_path, block) as told:
        assert told.file("a.txt") == "x\n"


def test_limits_hold(tmp_path: Path) -> None:
    block = put(tmp_path, asked(1), tool(1, "Bash", command="sleep 60"), asked(2), said("assistant", "done"))
    with run_agent(tmp_path, block, timeout=3) as told:
        assert told.failure is not None
        assert told.failure.cause is Cause.TURN_TIMEOUT
        assert "killed when its time was up" in told.calls[0].output
    left = iter([True])
    block = put(tmp_path, asked(1), asked(2), said("assistant", "done"))
    with run_agent(tmp_path, block, admit=lambda main: next(left, False)) as told:
        assert told.failure is None
        assert len(told.model_calls) == 1
        assert told.answers == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not a trial record"),
        ({"version": 2}, "record version 2, expected 1"),
        ({"trajectory": None}, "it has no trajectory"),
        ({"trajectory": {"events": [{"kind": "Message", "role": "boss", "text": ""}]}}, "event 1: a message of 'boss'"),
        ({"trajectory": {"events": [{"kind": "ToolCall", "parameters": [], "status": "x"}]}}, "event 1: a tool call"),
        ({"trajectory": {"events": [{"kind": "ModelCall", "id": 5}]}}, "event 1: id: expected text"),
    ],
)
def test_a_record_that_cannot_be_replayed_is_a_mistake(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with run_agent(tmp_path, put(tmp_path, **changes)) as told:
        assert told.failure is not None
        assert told.failure.cause is Cause.CONFIGURATION
        assert str(told.failure).startswith(f"agent.record: {tmp_path}")
        assert message in str(told.failure)


def test_a_record_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    with run_agent(tmp_path, {"type": "replay", "record": str(tmp_path / "nowhere.json")}) as told:
        assert told.failure is not None
        assert "not a readable trial record" in str(told.failure)
    assert ToolCall not in map(type, told.events)
