"""What the built-in parsers make of lines that opencode 1.18.33, gemini-cli 0.61.0 and pi 0.73.1 printed."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.agents.command.reading import JsonReader
from pytest_codereval.agents.command.told import Ids
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.task.program_rules import PARSERS
from pytest_codereval.trajectory.model import UNKNOWN, Event, Message, ModelCall, ToolCall, Usage


def reader(name: str, **options: Any) -> JsonReader:
    module = importlib.import_module(f"pytest_codereval.agents.command.{name}")
    made: JsonReader = module.Reader(Ids(), **options)
    return made


def told(made: JsonReader, lines: str, exit_status: int = 0) -> list[Event]:
    events: list[Event] = []
    for line in lines.strip().split("\n"):
        events += made.read(line.encode())
    events += made.finish(ProcessResult(exit_status))
    return events


def failure(name: str, lines: str, exit_status: int = 0) -> AgentError:
    with pytest.raises(AgentError) as caught:
        told(reader(name), lines, exit_status)
    return caught.value


def calls(events: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Name, parameters, status, exit status and output of each call, as it was told last."""
    last = {event.id: event for event in events if isinstance(event, ToolCall)}
    return [(one.name, dict(one.parameters), one.status, one.exit_status, one.output) for one in last.values()]


def answers(events: Iterable[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Message)]


def usages(events: Iterable[Event]) -> list[Usage]:
    return [event.usage for event in events if isinstance(event, ModelCall)]


OPENCODE = """
{"type":"step_start","timestamp":1796055222845,"sessionID":"ses_1","part":{"id":"p1","messageID":"m1","type":"step-start"}}
{"type":"tool_use","sessionID":"ses_1","part":{"type":"tool","tool":"bash","callID":"t1","state":{"status":"completed","input":{"command":"echo hi; exit 3","description":"x"},"output":"hi\\n","metadata":{"output":"hi\\n","exit":3,"truncated":false},"title":"echo hi","time":{"start":1796055271923,"end":1796055272376}}}}
{"type":"step_finish","sessionID":"ses_1","part":{"id":"p2","reason":"tool-calls","messageID":"m1","type":"step-finish","tokens":{"total":143,"input":110,"output":8,"reasoning":2,"cache":{"write":5,"read":20}},"cost":0}}
{"type":"step_start","sessionID":"ses_1","part":{"id":"p3","messageID":"m2","type":"step-start"}}
{"type":"tool_use","sessionID":"ses_1","part":{"type":"tool","tool":"edit","callID":"t2","state":{"status":"completed","input":{"filePath":"/w/a.txt","oldString":"A","newString":"B"},"output":"Edit applied successfully.","time":{"start":1796055224424,"end":1796055224437}}}}
{"type":"tool_use","sessionID":"ses_1","part":{"type":"tool","tool":"skill","callID":"t3","state":{"status":"error","input":{"name":"changelog"},"error":"ripgrep execution failed","time":{"start":1796055224597,"end":1796055224683}}}}
{"type":"text","sessionID":"ses_1","part":{"id":"p4","messageID":"m2","type":"text","text":"done"}}
{"type":"step_finish","sessionID":"ses_1","part":{"id":"p5","reason":"stop","messageID":"m2","tokens":{"input":150,"output":12,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.25}}
"""  # noqa: E501


def test_opencode() -> None:
    made = reader("opencode")
    events = told(made, OPENCODE)
    assert made.session == "ses_1"
    assert calls(events) == [
        ("Bash", {"command": "echo hi; exit 3", "description": "x"}, "error", 3, "hi\n"),
        ("Edit", {"file_path": "/w/a.txt", "old_string": "A", "new_string": "B"}, "success", None,
         "Edit applied successfully."),
        ("Skill", {"skill": "changelog"}, "error", None, "ripgrep execution failed"),
    ]  # fmt: skip
    assert answers(events) == ["done"]
    assert usages(events) == [Usage(110, 5, 20, 10), Usage(150, 0, 0, 12, 0.25)]
    steps = told(reader("opencode"), OPENCODE.replace('"m2"', '"m1"'))
    assert len({event.id for event in steps if isinstance(event, ModelCall)}) == 2, "a message may have several steps"


PI = """
{"type":"session","version":3,"id":"01a22d3b","cwd":"/w"}
{"type":"agent_start"}
{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"do it"}]}}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"toolCall","id":"t1","name":"bash","arguments":{"command":"exit 3"}}],"model":"m1","usage":{"input":100,"output":7,"cacheRead":20,"cacheWrite":5,"cost":{"total":0}},"stopReason":"toolUse","timestamp":1796055218437,"responseId":"msg_1"}}
{"type":"tool_execution_start","toolCallId":"t1","toolName":"bash","args":{"command":"exit 3"}}
{"type":"tool_execution_update","toolCallId":"t1","toolName":"bash","args":{"command":"exit 3"},"partialResult":{"content":[]}}
{"type":"tool_execution_end","toolCallId":"t1","toolName":"bash","result":{"content":[{"type":"text","text":"hi\\n\\n\\nCommand exited with code 3"}],"details":{}},"isError":true}
{"type":"tool_execution_start","toolCallId":"t1","toolName":"edit","args":{"path":"a","edits":[{"oldText":"A","newText":"B"}]}}
{"type":"tool_execution_end","toolCallId":"t1","toolName":"edit","result":{"content":[{"type":"text","text":"ok"}]},"isError":false}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"done"}],"model":"m1","usage":{"input":140,"output":11,"cacheRead":0,"cacheWrite":0,"cost":{"total":0.5}},"stopReason":"stop","responseId":"msg_2"}}
{"type":"agent_end","messages":[]}
"""  # noqa: E501


def test_pi() -> None:
    made = reader("pi")
    events = told(made, PI)
    assert made.session == "01a22d3b"
    assert calls(events) == [
        ("Bash", {"command": "exit 3"}, "error", 3, "hi\n\n\nCommand exited with code 3"),
        ("Edit", {"file_path": "a", "old_string": "A", "new_string": "B"}, "success", None, "ok"),
    ], "an id that is used again is another call"
    assert answers(events) == ["done"]
    assert usages(events) == [Usage(100, 5, 20, 7), Usage(140, 0, 0, 11, 0.5)]


GEMINI = """
YOLO mode is enabled.
{"type":"init","session_id":"70b5","model":"gemini-2.5-flash"}
{"type":"message","role":"user","content":"do it"}
{"type":"message","role":"assistant","content":"let me ","delta":true}
{"type":"message","role":"assistant","content":"see","delta":true}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"r0","parameters":{"command":"exit 3"}}
{"type":"tool_result","tool_id":"r0","status":"success","output":"hi"}
{"type":"tool_use","tool_name":"activate_skill","tool_id":"r1","parameters":{"name":"changelog"}}
{"type":"tool_result","tool_id":"r1","status":"error","output":"","error":{"type":"x","message":"no skill"}}
{"type":"message","role":"assistant","content":"done","delta":true}
{"type":"result","status":"success","stats":{"models":{"gemini-2.5-flash":{"total_tokens":642,"input_tokens":600,"output_tokens":42,"cached":120,"input":480}}}}
"""


def test_gemini() -> None:
    made = reader("gemini")
    events = told(made, GEMINI)
    assert made.session == "70b5"
    assert calls(events) == [
        ("Bash", {"command": "exit 3"}, "unknown", None, "hi"),
        ("Skill", {"skill": "changelog"}, "error", None, "no skill"),
    ], "the program calls a command that exits 3 a success, so its success is unknown"
    assert answers(events) == ["let me see", "done"]
    assert usages(events) == [Usage(480, 0, 120, 42)]


@pytest.mark.parametrize(("name", "lines"), [("opencode", OPENCODE), ("pi", PI), ("gemini", GEMINI)])
def test_calls_that_the_gateway_counts_are_not_told_again(name: str, lines: str) -> None:
    assert usages(told(reader(name, counted_elsewhere=True), lines)) == []


ERROR_401 = '401 {\\"type\\":\\"error\\",\\"error\\":{\\"type\\":\\"authentication_error\\",\\"message\\":\\"no\\"}}'
GEMINI_429 = json.dumps(
    {
        "type": "result",
        "status": "error",
        "error": {"message": '[API Error: {"error":{"code":429,"message":"nope","status":"RESOURCE_EXHAUSTED"}}]'},
    }
)
PI_END = '{"type":"message_end","message":{"role":"assistant","content":[],"usage":{"input":0,"output":0},%s}}'


@pytest.mark.parametrize(
    ("name", "line", "cause"),
    [
        ("pi", PI_END % f'"stopReason":"error","errorMessage":"{ERROR_401}"', Cause.AUTHENTICATION),
        ("pi", PI_END % '"stopReason":"error","errorMessage":"429 too many"', Cause.RATE_LIMITED),
        ("pi", PI_END % '"stopReason":"error","errorMessage":"stream ended"', Cause.API_FAULT),
        ("pi", PI_END % '"stopReason":"length"', Cause.OUTPUT_CUT),
        ("opencode", '{"type":"error","error":{"name":"APIError","data":{"message":"m","statusCode":401}}}',
         Cause.AUTHENTICATION),
        ("opencode", '{"type":"error","error":{"name":"ContentFilterError","data":{"message":"m"}}}', Cause.REFUSED),
        ("opencode", '{"type":"step_finish","part":{"reason":"length"}}', Cause.OUTPUT_CUT),
        ("opencode", '{"type":"step_finish","part":{"reason":"unknown"}}', Cause.API_FAULT),
        ("opencode", '{"type":"step_finish","part":{"reason":"tool-calls"}}', Cause.AGENT_CRASH),
        ("gemini", GEMINI_429, Cause.RATE_LIMITED),
        ("gemini", '{"type":"result","status":"error","error":{"message":"it broke"}}', Cause.AGENT_CRASH),
    ],
)  # fmt: skip
def test_a_failure_that_is_told_is_one_also_with_exit_status_0(name: str, line: str, cause: Cause) -> None:
    assert failure(name, line).cause is cause


def test_pi_gets_over_a_fault() -> None:
    lines = PI_END % '"stopReason":"error","errorMessage":"429 too many"'
    assert answers(told(reader("pi"), f"{lines}\n{PI.strip()}")) == ["done"]


@pytest.mark.parametrize("name", PARSERS)
def test_a_stream_without_an_end_is_a_crash(name: str) -> None:
    assert failure(name, "hello\n{}\n[1]\n").cause is Cause.AGENT_CRASH
    assert "exited 7" in str(failure(name, "hello", exit_status=7))


@pytest.mark.parametrize(("name", "lines"), [("opencode", OPENCODE), ("pi", PI), ("gemini", GEMINI)])
def test_each_line_alone_and_with_anything_in_its_values_is_harmless(name: str, lines: str) -> None:
    odd: list[Any] = [None, 5, -1, True, [], [1], {}, {"x": 1}, "", "\ud800"]
    for line in [line for line in lines.strip().split("\n") if line.startswith("{")]:
        for path in _places(json.loads(line)):
            for value in odd:
                changed = json.loads(line)
                _put(changed, path, value)
                made = reader(name)
                events = [*made.read(json.dumps(changed).encode()), *made.rest()]
                assert all(usage == UNKNOWN or (usage.total_tokens or 0) >= 0 for usage in usages(events))


def _places(value: Any, above: tuple[Any, ...] = ()) -> Iterable[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*above, key)
        yield from _places(item, (*above, key))


def _put(data: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        data = data[key]
    data[path[-1]] = value


@given(st.binary(max_size=200))
def test_no_line_breaks_a_parser(line: bytes) -> None:
    for name in PARSERS:
        assert list(reader(name).read(line)) == []
