"""What is made of the lines that Claude Code prints; no program runs here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.agents.claude_code import agent as agent_module
from pytest_codereval.agents.claude_code.calls import ModelCalls
from pytest_codereval.agents.claude_code.reader import StreamReader
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.trajectory.model import Event, Message, ModelCall, ModelFault, ToolCall
from tests.fakes import FakeAnthropic

from .claude_run import KEY, Stage, need_claude

FINE = ProcessResult(0)
BAD = ProcessResult(1, stderr=b"the last words")


def say(text: str, **more: Any) -> dict[str, Any]:
    return assistant({"type": "text", "text": text}, **more)


def assistant(*blocks: dict[str, Any], model: str = "m", **more: Any) -> dict[str, Any]:
    return {"message": {"id": "msg_1", "model": model, "content": list(blocks)}, "type": "assistant", **more}


def use(call_id: str, name: str = "Bash", parent: str | None = None, **arguments: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    return assistant(block, parent_tool_use_id=parent)


def result_of(call_id: str, content: Any, error: bool = False, detail: Any = None) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": error}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "tool_use_result": detail}


def system(subtype: str, **more: Any) -> dict[str, Any]:
    return {"type": "system", "subtype": subtype, **more}


def final(**more: Any) -> dict[str, Any]:
    return {"is_error": False, "subtype": "success", "stop_reason": "end_turn", "type": "result", **more}


def replied() -> ModelCalls:
    calls = ModelCalls()
    calls.take(ModelCall("msg_1", "m"))
    return calls


def read(reader: StreamReader, *lines: Any) -> list[Event]:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    return [event for line in raw for event in reader.read(line)]


def new_reader(calls: ModelCalls | None = None) -> StreamReader:
    return StreamReader(calls or replied(), lambda told: None)


def end(process: ProcessResult, *lines: Any, calls: ModelCalls | None = None) -> AgentError | None:
    reader = new_reader(calls)
    try:
        read(reader, *lines)
        list(reader.finish(process))
    except AgentError as error:
        return error
    return None


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\xff\xfe not JSON",
        b"[" * 100_000,
        b"5",
        b"[1]",
        b"null",
        {"type": "news"},
        {"type": 5},
        {"type": "assistant"},
        {"type": "assistant", "message": {"content": "text"}},
        {"type": "assistant", "message": {"content": [5, {"type": "text"}, {"type": "text", "text": 5}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result"}, {"type": "text", "text": "x"}]}},
        {"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": ["x"]}]}},
        system("task_notification", tool_use_id={}),
        system("background_tasks_changed", tasks=5),
        system("task_started", tool_use_id="unknown", task_id=5),
    ],
    ids=lambda line: (line if isinstance(line, bytes) else json.dumps(line).encode())[:60].decode("latin-1"),
)
def test_lines_that_make_no_sense_tell_nothing(line: Any) -> None:
    assert read(new_reader(), line) == []


@pytest.mark.parametrize(
    ("content", "error", "detail", "status", "exit_status", "output"),
    [
        ("out\nerr", False, {"stdout": "out", "stderr": "err"}, "success", 0, "out\nerr"),
        ("(Bash completed with no output)", False, {"stdout": "", "stderr": ""}, "success", 0, ""),
        ("none", False, {"stdout": "", "returnCodeInterpretation": "No matches found"}, "error", 1, ""),
        ("", False, {"stdout": "x", "interrupted": True}, "error", None, "x"),
        ("Exit code 127\nno such program", True, "Error: Exit code 127", "error", 127, "no such program"),
        ("Exit code 1", True, "Error: Exit code 1", "error", 1, ""),
        (
            "Permission to use Bash has been denied.",
            True,
            None,
            "error",
            None,
            "Permission to use Bash has been denied.",
        ),
        ([{"type": "text", "text": "a"}, {"type": "image"}], False, None, "success", 0, "a\n[image]"),
        (None, False, None, "success", 0, ""),
        ("goes on", False, {"stdout": "", "backgroundTaskId": "b1"}, "unknown", None, "goes on"),
    ],
)
def test_a_shell_command_has_the_status_that_it_really_had(
    content: Any, error: bool, detail: Any, status: str, exit_status: int | None, output: str
) -> None:
    told = read(new_reader(), use("t1", command="x"), result_of("t1", content, error, detail))
    call = told[-1]
    assert isinstance(call, ToolCall)
    assert (call.status, call.exit_status, call.output) == (status, exit_status, output)
    assert (call.ended is None) == (status == "unknown")


def test_where_the_program_does_not_tell_a_status_of_1_it_is_unknown() -> None:
    told = read(new_reader(), use("t1", command="grep x a", parent="t0"), result_of("t1", "(no output)"))
    assert [call.exit_status for call in told if isinstance(call, ToolCall)] == [None, None]


def test_an_older_name_of_a_tool_is_the_same_tool() -> None:
    (told,) = read(new_reader(), use("t1", name="Task", prompt="p"))
    assert isinstance(told, ToolCall)
    assert told.name == "Agent"


def test_texts_of_sub_agents_and_made_up_ones_are_not_the_answer() -> None:
    told = read(
        new_reader(),
        say("mine"),
        say("not mine", parent_tool_use_id="t1"),
        say("API Error: 500", model="<synthetic>", error="server_error"),
        say("  "),
    )
    assert [event.text for event in told if isinstance(event, Message)] == ["mine"]


@pytest.mark.parametrize(
    ("summary", "status", "expected", "exit_status"),
    [
        ('Background command "x" completed (exit code 0)', "completed", "success", 0),
        ('Background command "(exit code 0)" failed with exit code 4', "failed", "error", 4),
        ('Background command "failed with exit code 3" was stopped', "stopped", "error", None),
        (None, "who knows", "unknown", None),
    ],
)
def test_the_end_of_a_command_in_the_background(
    summary: Any, status: str, expected: str, exit_status: int | None
) -> None:
    reader = new_reader()
    read(
        reader,
        use("t1", command="x"),
        result_of("t1", "goes on", detail={"backgroundTaskId": "b1"}),
    )
    notice = system("task_notification", tool_use_id="t1", status=status, summary=summary, output_file="/tmp/x")
    (call,) = read(reader, notice)
    assert isinstance(call, ToolCall)
    assert (call.status, call.exit_status) == (expected, exit_status)
    assert call.ended is not None
    assert reader.stored == {"t1": "/tmp/x"}
    assert read(reader, notice) == []


def test_calls_of_a_model_are_told_again_when_their_sub_agent_is_known() -> None:
    calls = ModelCalls()
    reader = new_reader(calls)
    early = calls.take(ModelCall("msg_2", "m", parent_id="a1"))
    assert isinstance(early, ModelCall)
    assert early.parent_id == "a1"
    read(reader, use("t1", name="Agent"), system("task_started", tool_use_id="t1", task_id="a1"))
    assert [(call.id, call.parent_id) for call in calls.late()] == [("msg_2", "t1")]
    assert list(calls.late()) == []
    late = calls.take(ModelCall("msg_3", "m", parent_id="a1"))
    assert isinstance(late, ModelCall)
    assert late.parent_id == "t1"


def fault(cause: Cause, retry_after: float | None = None) -> ModelFault:
    return ModelFault("f", cause, "the API said so", retry_after=retry_after)


def test_a_success_needs_a_result_without_an_error_and_exit_status_0() -> None:
    assert end(FINE, say("done"), final()) is None
    assert end(BAD, final(is_error=True, subtype="error_max_turns")) is None


@pytest.mark.parametrize(
    ("process", "lines", "cause", "message"),
    [
        (BAD, [], Cause.AGENT_CRASH, "the last words"),
        (FINE, [say("done")], Cause.AGENT_CRASH, "without a result"),
        (ProcessResult(1, stderr=b"error: unknown option '--effort'"), [], Cause.CONFIGURATION, "--effort"),
        (BAD, [final()], Cause.AGENT_CRASH, "exit status 1"),
        (FINE, [final(is_error=None)], Cause.AGENT_CRASH, "success"),
        (BAD, [final(is_error=True, subtype="error_during_execution", errors=["why"])], Cause.AGENT_CRASH, "why"),
        (BAD, [final(is_error=True, terminal_reason="api_error", result="w")], Cause.API_FAULT, "w"),
        (BAD, [final(is_error=True, terminal_reason="api_error", api_error_status=529)], Cause.OVERLOADED, ""),
        (BAD, [final(is_error=True, api_error_status=429)], Cause.RATE_LIMITED, ""),
        (BAD, [final(is_error=True, terminal_reason="prompt_too_long", result="long")], Cause.CONTEXT_FULL, "long"),
        (FINE, [final(stop_reason="refusal")], Cause.REFUSED, "refusal"),
        (FINE, [final(stop_reason="max_tokens")], Cause.OUTPUT_CUT, "max_tokens"),
        (FINE, [final(stop_reason="model_context_window_exceeded")], Cause.CONTEXT_FULL, ""),
        (FINE, [final(stop_reason="pause_turn")], Cause.API_FAULT, ""),
        (FINE, [final(is_error=True), final(), final(is_error=True, result="the last")], Cause.AGENT_CRASH, "the last"),
        *(
            (BAD, [say("e", model="<synthetic>", error=kind), final(is_error=True, result="e")], cause, "e")
            for kind, cause in [
                ("authentication_failed", Cause.AUTHENTICATION),
                ("billing_error", Cause.BILLING),
                ("model_not_found", Cause.BAD_REQUEST),
                ("max_output_tokens", Cause.OUTPUT_CUT),
            ]
        ),
    ],
)
def test_every_other_end_is_a_typed_failure(
    process: ProcessResult, lines: list[Any], cause: Cause, message: str
) -> None:
    error = end(process, *lines)
    assert error is not None
    assert error.cause is cause
    assert message in str(error)


def test_what_the_gateway_saw_is_more_exact_and_a_fault_left_open_is_no_success() -> None:
    calls = replied()
    calls.take(fault(Cause.RATE_LIMITED, 9))
    for process, lines in ((FINE, [final()]), (BAD, [final(is_error=True)]), (BAD, [])):
        error = end(process, *lines, calls=calls)
        assert error is not None
        assert (error.cause, error.retry_after) == (Cause.RATE_LIMITED, 9)
    calls.take(ModelCall("msg_9", "m", parent_id="a sub-agent's"))
    assert end(FINE, final(), calls=calls) is not None
    calls.take(ModelCall("msg_9", "m"))
    assert end(FINE, final(), calls=calls) is None


def test_the_last_result_counts() -> None:
    assert end(FINE, final(is_error=True), say("on"), final()) is None


def test_tool_calls_whose_input_breaks_off_again_and_again_end_the_run() -> None:
    def broken(number: int) -> dict[str, Any]:
        line = use(f"t{number}", __unparsedToolInput={"raw": "{"})
        line["message"]["id"] = f"msg_{number}"
        return line

    reader = new_reader()
    told = read(reader, broken(1), broken(2), use("t3", command="x"), broken(4), broken(5))
    assert len([event for event in told if isinstance(event, ModelFault)]) == 4
    with pytest.raises(AgentError, match="3 times in a row") as caught:
        read(reader, broken(6))
    assert caught.value.cause is Cause.API_FAULT


SHELL = {"task_id": "b1", "task_type": "local_bash"}
AGENT = {"task_id": "a1", "task_type": "local_agent"}


@pytest.mark.parametrize(
    ("lines", "open_faults", "cause"),
    [
        ([say("It runs."), system("background_tasks_changed", tasks=[SHELL]), final()], [], None),
        ([say("x"), system("background_tasks_changed", tasks=[SHELL, AGENT]), final()], [], Cause.TURN_TIMEOUT),
        ([system("background_tasks_changed", tasks=[SHELL]), final(), use("t9", command="x")], [], Cause.TURN_TIMEOUT),
        ([system("background_tasks_changed", tasks=[SHELL]), final(is_error=True)], [], Cause.TURN_TIMEOUT),
        ([say("x")], [], Cause.TURN_TIMEOUT),
        ([say("x"), system("background_tasks_changed", tasks=[SHELL]), final()], [fault(Cause.OVERLOADED)],
         Cause.OVERLOADED),
    ],
)  # fmt: skip
def test_a_server_that_the_agent_left_running_is_no_timeout(
    lines: list[Any], open_faults: list[Event], cause: Cause | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_the_deadline(job: Any, launch: Any, reader: StreamReader, *rest: Any) -> Iterator[Event]:
        yield ModelCall("msg_1", "m")
        for line in lines:
            yield from reader.read(json.dumps(line).encode())
        yield from open_faults
        raise AgentError(Cause.TURN_TIMEOUT, "too late")

    need_claude()
    monkeypatch.setattr(agent_module, "run_program", until_the_deadline)
    with FakeAnthropic([], key=KEY) as fake:
        stage = Stage(tmp_path, fake, monkeypatch)
        try:
            stage.start()
            failure = stage.ask().failure
            assert (failure and failure.cause) is cause
        finally:
            stage.close()
