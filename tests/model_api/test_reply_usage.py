"""What a reply of the Messages API used is read alike wherever it passes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_codereval.agents.gateway.usage import ReplyReader
from pytest_codereval.model_api.assembly import Assembly
from pytest_codereval.trajectory.model import Usage


def nested(depth: int) -> dict[str, Any]:
    return {"more": nested(depth - 1)} if depth else {}


TOLD = {"input_tokens": 10, "output_tokens": 1}


@pytest.mark.parametrize(
    ("first", "last", "usage"),
    [
        (TOLD, {"output_tokens": 5}, Usage(10, 0, 0, 5)),
        (TOLD, {}, Usage(10, 0, 0, None)),
        ({}, {"output_tokens": 5}, Usage(None, None, None, 5)),
        (
            {**TOLD, "cache_read_input_tokens": 7},
            {"cache_read_input_tokens": 0, "output_tokens": 5},
            Usage(10, 0, 7, 5),
        ),
        ({**TOLD, "cache_read_input_tokens": -7}, {"output_tokens": 5}, Usage(10, 0, None, 5)),
        ({**TOLD, "input_tokens": 0}, {"input_tokens": 12, "output_tokens": 5}, Usage(12, 0, 0, 5)),
        (TOLD, {"output_tokens": 5, "cost": 0.25}, Usage(10, 0, 0, 5, 0.25)),
        (TOLD, {"output_tokens": 5, "cost": 0.25, "is_byok": True}, Usage(10, 0, 0, 5)),
        (
            {**TOLD, "cache_creation_input_tokens": 9, "cache_creation": {"ephemeral_1h_input_tokens": 9}},
            {"output_tokens": 5},
            Usage(10, 9, 0, 5, extras=True),
        ),
        (
            {
                **TOLD,
                "cache_creation": {"ephemeral_1h_input_tokens": 0},
                "service_tier": "standard",
                "speed": "standard",
            },
            {"output_tokens": 5, "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 2}},
            Usage(10, 0, 0, 5),
        ),
        (TOLD, {"output_tokens": 5, "server_tool_use": {"web_search_requests": 1}}, Usage(10, 0, 0, 5, extras=True)),
        ({**TOLD, "speed": "fast"}, {"output_tokens": 5}, Usage(10, 0, 0, 5, extras=True)),
        ({**TOLD, "server_tool_use": nested(800)}, {"output_tokens": 5, "more": nested(800)}, Usage(10, 0, 0, 5)),
        ({**TOLD, "server_tool_use": [3]}, {"output_tokens": 5, "cost": "7", "speed": ["fast"]}, Usage(10, 0, 0, 5)),
    ],
)
def test_both_ways_read_the_same(first: dict[str, Any], last: dict[str, Any], usage: Usage) -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "model": "x", "usage": first}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last},
        {"type": "message_stop"},
    ]
    assembly, reader = Assembly(), ReplyReader("messages", "text/event-stream")
    for event in events:
        assembly.add(event)
        reader.feed(f"data: {json.dumps(event)}\n\n".encode())
    assert (assembly.reply().usage, reader.reading.usage) == (usage, usage)
