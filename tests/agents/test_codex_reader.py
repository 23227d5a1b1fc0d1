"""Lines that Codex printed, and lines that it never would."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.agents.codex.reader import Reader
from pytest_codereval.agents.codex.words import split, unwrapped
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.trajectory.model import Event, Message, ModelCall, ModelFault, ToolCall

TEXT = {"type": "text", "text": "x"}
THREAD = "01a22d34-54bc-7521-a658-39d6401ccb8e"


def read(*told: object) -> list[Event]:
    reader = Reader(2)
    return [event for line in told for event in reader.read(line if isinstance(line, bytes) else _line(line))]


def _line(value: object) -> bytes:
    return json.dumps(value).encode()


def item(kind: str, move: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"item.{move}", "item": {"id": "item_1", "type": kind, "status": "completed", **fields}}


def call_of(*told: object) -> ToolCall:
    found = read(*told)[-1]
    assert isinstance(found, ToolCall)
    return found


@pytest.mark.parametrize(
    ("printed", "command"),
    [
        ("/bin/bash -lc 'echo hi'", "echo hi"),
        ("/bin/bash -c nosuch", "nosuch"),
        ("/bin/bash -c \"python3 -c 'import sys;sys.exit(3)'\"", "python3 -c 'import sys;sys.exit(3)'"),
        (
            "/bin/bash -c \"echo é\\\"x\\\" 'y' \"'$(echo 1) `echo 2`\nfor i in 1 2; do echo $i; done'",
            "echo é\"x\" 'y' $(echo 1) `echo 2`\nfor i in 1 2; do echo $i; done",
        ),
        ('/bin/bash -lc "a \\$b \\`c\\` \\\\d \\e"', "a $b `c` \\d \\e"),
        ("/usr/bin/zsh -lc 'print x'", "print x"),
        ("/bin/bash -lc '/bin/bash -lc inner'", "/bin/bash -lc inner"),
        ("git status", "git status"),
        ("/bin/bash -lc a b", "/bin/bash -lc a b"),
        ("/bin/bash -lc 'unfinished", "/bin/bash -lc 'unfinished"),
        ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        ("", ""),
    ],
)
def test_only_the_shell_that_codex_starts_is_taken_off(printed: str, command: str) -> None:
    assert unwrapped(printed) == command


@given(st.lists(st.text(min_size=1), min_size=1))
def test_words_are_split_as_they_were_joined(words: list[str]) -> None:
    assert split(shlex.join(words)) == words


@pytest.mark.parametrize(
    ("end", "status", "exit_status"),
    [
        ({"exit_code": 0}, "success", 0),
        ({"exit_code": 7, "status": "failed"}, "error", 7),
        ({"exit_code": 7}, "error", 7),
        ({"exit_code": -1, "status": "failed"}, "error", None),
        ({"exit_code": None, "status": "declined"}, "error", None),
        ({"exit_code": True}, "success", None),
        ({"exit_code": 0, "status": "news"}, "unknown", 0),
    ],
)
def test_a_command_has_its_outcome(end: dict[str, Any], status: str, exit_status: int | None) -> None:
    begun = item("command_execution", "started", command="/bin/bash -lc 'make it'", status="in_progress")
    first, last = read(
        begun, item("command_execution", command="/bin/bash -lc 'make it'", aggregated_output="o", **end)
    )
    assert isinstance(first, ToolCall)
    assert isinstance(last, ToolCall)
    assert (first.id, first.status, first.ended) == (last.id, "unknown", None)
    assert (last.name, last.parameters, last.output) == ("Bash", {"command": "make it"}, "o")
    assert (last.status, last.exit_status, last.started) == (status, exit_status, first.started)
    assert last.ended is not None


def test_each_changed_file_is_a_call() -> None:
    changes = [{"path": f"/w/{kind}", "kind": kind} for kind in ("add", "update", "delete")]
    calls = read(item("file_change", changes=changes))
    assert [(one.name, one.parameters) for one in calls if isinstance(one, ToolCall)] == [
        ("Write", {"file_path": "/w/add"}),
        ("Edit", {"file_path": "/w/update"}),
        ("Edit", {"file_path": "/w/delete", "kind": "delete"}),
    ]
    assert len({one.id for one in calls if isinstance(one, ToolCall)}) == 3


@pytest.mark.parametrize(
    ("told", "name", "parameters", "status", "output"),
    [
        (
            item("mcp_tool_call", server="s", tool="t", arguments={"a": 1}, result={"content": [TEXT]}),
            "mcp__s__t",
            {"a": 1},
            "success",
            "x",
        ),
        (
            item("mcp_tool_call", server="s", tool="t", arguments=None, status="failed", error={"message": "no"}),
            "mcp__s__t",
            {},
            "error",
            "no",
        ),
        (item("web_search", query="q", status=None), "WebSearch", {"query": "q"}, "unknown", ""),
        (
            {
                "type": "item.completed",
                "item": {"id": "i", "type": "todo_list", "items": [{"text": "a", "completed": True}]},
            },
            "TodoWrite",
            {"todos": [{"content": "a", "status": "completed"}]},
            "success",
            "",
        ),
        (
            item("collab_tool_call", tool="spawn_agent", prompt="p", receiver_thread_ids=[], status="failed"),
            "Agent",
            {"prompt": "p"},
            "error",
            "",
        ),
        (item("collab_tool_call", tool="wait", prompt=None), "wait", {"agents": []}, "success", ""),
        (item("something_new", value=1), "something_new", {"value": 1}, "success", ""),
    ],
)
def test_other_tools_have_their_names(
    told: dict[str, Any], name: str, parameters: dict[str, Any], status: str, output: str
) -> None:
    found = call_of(told)
    assert (found.name, found.parameters, found.status, found.output) == (name, parameters, status, output)


def test_a_spawned_agent_has_the_id_of_its_thread() -> None:
    told = {"tool": "spawn_agent", "prompt": "p", "receiver_thread_ids": [THREAD]}
    assert read(item("collab_tool_call", "started", **{**told, "receiver_thread_ids": []})) == []
    found = call_of(item("collab_tool_call", **told))
    assert (found.id, found.name, found.status, found.parent_id) == (THREAD, "Agent", "unknown", None)


def test_only_what_the_agent_says_is_a_message() -> None:
    told = read(
        item("agent_message", text="hello"),
        item("agent_message", text=" "),
        item("agent_message", "started", text="half"),
        item("reasoning", text="hm"),
        item("error", message="Model metadata not found"),
    )
    assert [one.text for one in told if isinstance(one, Message)] == ["hello"]
    assert len(told) == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"Reading prompt from stdin...",
        b"null",
        b"[1]",
        b"{" * 100_000,
        b"[" * 100_000,
        b'{"type": "item.completed"}',
        b'{"type": "item.completed", "item": []}',
        b'{"type": ["item.completed"], "item": {}}',
        b'{"type": "item.completed", "item": {"type": {}}}',
        b'{"type": "item.completed", "item": {"type": "agent_message", "text": 5}}',
        b'{"type": "item.completed", "item": {"type": "file_change", "changes": [5, null]}}',
        b'{"type": "thread.started", "thread_id": "--help"}',
        b"\xff\xfe",
        b'{"n": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_strange_line_tells_nothing(line: bytes) -> None:
    reader = Reader(1)
    assert list(reader.read(line)) == []
    assert reader.thread_id is None


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "command_execution", "command": ["a"], "aggregated_output": 5, "status": []},
        {"type": "mcp_tool_call", "server": None, "tool": {}, "arguments": [1], "result": {"content": 7}, "error": [1]},
        {"type": "collab_tool_call", "tool": "spawn_agent", "receiver_thread_ids": [5, None], "prompt": {}},
        {"type": "todo_list", "items": {"a": 1}, "status": {}},
    ],
)
def test_strange_fields_do_no_harm(fields: dict[str, Any]) -> None:
    for move in ("started", "completed"):
        for found in read({"type": f"item.{move}", "item": fields}):
            assert isinstance(found, ToolCall)


def ended(*told: object, exit_status: int = 0, events: tuple[Event, ...] = (), stderr: bytes = b"") -> None:
    reader = Reader(1)
    for line in told:
        list(reader.read(_line(line)))
    for event in events:
        reader.note(event)
    list(reader.finish(ProcessResult(exit_status, stderr=stderr)))


COMPLETED = {"type": "turn.completed", "usage": {}}
FAILED = {"type": "turn.failed", "error": {"message": "it broke"}}
FAULT = ModelFault("f", Cause.RATE_LIMITED, "slow down", 429, 7.0)


def test_a_completed_turn_is_a_success_whatever_went_wrong_before() -> None:
    ended({"type": "error", "message": "Reconnecting... 1/2"}, COMPLETED)
    ended(COMPLETED, events=(FAULT,))


@pytest.mark.parametrize(
    ("told", "exit_status", "events", "cause", "message"),
    [
        ([FAILED], 1, (FAULT,), Cause.RATE_LIMITED, "slow down .*it broke"),
        ([FAILED], 1, (FAULT, ModelCall("m", None)), Cause.AGENT_CRASH, "it broke"),
        ([FAILED], 1, (FAULT, ModelCall("m", None, parent_id="x")), Cause.RATE_LIMITED, "slow down"),
        ([FAILED], 1, (FAULT, ModelCall("m", None, complete=False)), Cause.RATE_LIMITED, "slow down"),
        ([FAILED], 1, (FAULT, ModelCall("f", None)), Cause.RATE_LIMITED, "slow down"),
        ([FAILED], 0, (), Cause.AGENT_CRASH, "it broke"),
        ([COMPLETED], 1, (), Cause.AGENT_CRASH, "exited 1"),
        ([COMPLETED, FAILED], 0, (), Cause.AGENT_CRASH, "it broke"),
        ([], 0, (), Cause.AGENT_CRASH, "before its turn was completed"),
        ([], 137, (), Cause.AGENT_CRASH, "137"),
        ([COMPLETED], 0, (ModelFault("f", Cause.REFUSED, "filtered"),), Cause.REFUSED, "filtered"),
    ],
)
def test_every_other_end_is_a_failure_with_its_cause(
    told: list[object], exit_status: int, events: tuple[Event, ...], cause: Cause, message: str
) -> None:
    with pytest.raises(AgentError, match=message) as caught:
        ended(*told, exit_status=exit_status, events=events, stderr=b"some words")
    assert caught.value.cause is cause
    assert caught.value.retry_after == (7.0 if cause is Cause.RATE_LIMITED else None)


def reply(number: int, bad: bool = False) -> list[Event]:
    fault = ModelFault(f"r{number}", Cause.API_FAULT, "no JSON", 200)
    return [ModelCall(f"r{number}", None), *([fault] if bad else [])]


def ask(*bad: bool) -> None:
    ended(COMPLETED, events=tuple(event for number, one in enumerate(bad) for event in reply(number, one)))


def test_a_completed_turn_whose_last_reply_makes_no_sense_is_a_failure() -> None:
    ask(True, False)
    with pytest.raises(AgentError, match="no JSON") as caught:
        ask(False, True)
    assert caught.value.cause is Cause.API_FAULT


def test_replies_that_make_no_sense_end_the_run_after_three_in_a_row() -> None:
    ask(True, True, False, True, True, False)
    with pytest.raises(AgentError, match=r"no JSON, 3 times in a row"):
        ask(True, False, True, True, True, False)
