"""What is taken for an event: only what can be counted, compared and written."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_codereval.errors import Cause
from pytest_codereval.trajectory.checking import DEEPEST, checked
from pytest_codereval.trajectory.model import Message, ModelCall, ModelFault, ToolCall, Usage


def nested(depth: int) -> dict[str, object]:
    """So many objects and lists inside each other."""
    value: object = 1
    for number in range(depth - 1):
        value = [value] if number % 2 else {"a": value}
    return {"top": value}


def tool(**fields: Any) -> ToolCall:
    return ToolCall(**{"id": "1", "name": "Bash", "parameters": {}, "status": "success"} | fields)


GOOD = [
    tool(parameters={"a": [1, 2.5, None, True, {"b": "\ud800"}]}, exit_status=137, ended=1.5, parent_id="0"),
    tool(parameters=nested(DEEPEST)),
    Message("assistant", ""),
    ModelCall("1", None, Usage(1, 2, None, 3, 0.5)),
    ModelFault("1", Cause.RATE_LIMITED, "slow down", 429, 1.5),
]

BAD: list[Any] = [
    None,
    {"role": "assistant"},
    tool(id=3),
    tool(name=None),
    tool(parameters=["x"]),
    tool(parameters={1: "x"}),
    tool(parameters={"a": float("nan")}),
    tool(parameters={"a": {1, 2}}),
    tool(parameters={"a": 10**5000}),
    tool(parameters=nested(DEEPEST + 1)),
    tool(parameters=nested(50_000)),
    tool(status="weird"),
    tool(status=["success"]),
    tool(exit_status=-9),
    tool(started=float("inf")),
    tool(ended=10**400),
    Message("robot", "hello"),  # type: ignore[arg-type]
    Message("user", b"hello"),  # type: ignore[arg-type]
    ModelCall("1", "m", Usage(-5000, 0, 0, 0)),
    ModelCall("1", "m", Usage(10**16, 0, 0, 0)),
    ModelCall("1", "m", Usage(True, 0, 0, 0)),
    ModelCall("1", "m", Usage(cost_usd=float("nan"))),
    ModelCall("1", "m", {"input_tokens": 1}),  # type: ignore[arg-type]
    ModelCall("1", "m", complete=1),  # type: ignore[arg-type]
    ModelFault("1", "tired", "no"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("event", GOOD, ids=repr)
def test_an_event_stays_what_it_is(event: Any) -> None:
    assert checked(event) == event


@pytest.mark.parametrize("event", BAD, ids=range(len(BAD)))
def test_what_is_none_is_refused_with_a_reason(event: Any) -> None:
    with pytest.raises(
        ValueError, match=r"it told (a (ToolCall|Message|ModelCall|ModelFault) whose \w+ is|.*no event)"
    ):
        checked(event)


def test_parameters_become_plain_data() -> None:
    told = checked(tool(parameters={"a": (1, 2)}))
    assert isinstance(told, ToolCall)
    assert told.parameters == {"a": [1, 2]}
    assert json.loads(json.dumps(told.parameters)) == told.parameters
