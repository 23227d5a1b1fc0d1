"""What the gateway tells of replies and faults of every shape."""

from __future__ import annotations

import dataclasses
import email.utils
import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.agents.gateway.usage import DIALECTS, Reading, ReplyReader
from pytest_codereval.errors import Cause
from pytest_codereval.model_api.faults import fault_of_response
from pytest_codereval.model_api.sse import EventSplitter
from pytest_codereval.redaction import hide
from pytest_codereval.trajectory.model import Usage

from .gateway_upstream import MESSAGE, sse

STREAM = "text/event-stream; charset=utf-8"
JSON = "application/json"

RESPONSE: dict[str, Any] = {
    "id": "resp_1",
    "model": "gpt-x",
    "status": "completed",
    "usage": {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
    },
}
RESPONSES = sse(
    {"type": "response.created", "response": {"id": "resp_1", "model": "gpt-x", "usage": None}},
    {"type": "response.output_text.delta", "delta": "hi"},
    {"type": "response.completed", "response": RESPONSE},
)
CHAT_USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 9,
    "prompt_tokens_details": {"cached_tokens": 60},
    "cost": 0.0125,
}
CHAT = sse(
    '{"id": "c1", "model": "m", "choices": [{"delta": {"content": "x"}, "finish_reason": null}]}',
    '{"id": "c1", "model": "m", "choices": [{"delta": {}, "finish_reason": "stop"}]}',
    json.dumps({"id": "c1", "model": "m", "choices": [], "usage": CHAT_USAGE}),
    "[DONE]",
    end="\r\n",
)
GEMINI_PART = {"responseId": "g1", "modelVersion": "gem", "candidates": [{"content": {}}]}
GEMINI_LAST = {
    **GEMINI_PART,
    "candidates": [{"finishReason": "STOP"}],
    "usageMetadata": {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 60,
        "toolUsePromptTokenCount": 2,
        "candidatesTokenCount": 5,
        "thoughtsTokenCount": 4,
        "totalTokenCount": 111,
    },
}
GEMINI = sse(json.dumps({**GEMINI_PART, "usageMetadata": {"promptTokenCount": 100}}), json.dumps(GEMINI_LAST))
ANTHROPIC_JSON = {
    "id": "msg_1",
    "type": "message",
    "model": "claude-x",
    "stop_reason": "tool_use",
    "usage": {
        "input_tokens": 11,
        "cache_creation_input_tokens": None,
        "cache_read_input_tokens": 5,
        "output_tokens": 42,
    },
}

WHOLE = {
    "messages": ("messages", STREAM, b"".join(MESSAGE), Usage(11, 3, 5, 42)),
    "messages-json": ("messages", JSON, json.dumps(ANTHROPIC_JSON).encode(), Usage(11, 0, 5, 42)),
    "responses": ("responses", STREAM, b"".join(RESPONSES), Usage(30, 10, 60, 9)),
    "responses-json": ("responses", JSON, json.dumps(RESPONSE).encode(), Usage(30, 10, 60, 9)),
    "chat": ("chat", STREAM, b"".join(CHAT), Usage(40, 0, 60, 9, 0.0125)),
    "chat-json": (
        "chat",
        JSON,
        json.dumps({"id": "c1", "model": "m", "choices": [{"finish_reason": "stop"}], "usage": CHAT_USAGE}).encode(),
        Usage(40, 0, 60, 9, 0.0125),
    ),
    "gemini": ("gemini", STREAM, b"".join(GEMINI), Usage(42, 0, 60, 9)),
    "gemini-json": ("gemini", JSON, json.dumps(GEMINI_LAST).encode(), Usage(42, 0, 60, 9)),
    "gemini-array": ("gemini", JSON, json.dumps([GEMINI_PART, GEMINI_LAST]).encode(), Usage(42, 0, 60, 9)),
}


def read(dialect: str, kind: str, *pieces: bytes) -> Reading:
    reader = ReplyReader(dialect, kind)
    for piece in pieces:
        reader.feed(piece)
    reader.finish()
    return reader.reading


@pytest.mark.parametrize("shape", WHOLE)
@pytest.mark.parametrize("declared", [True, False])
def test_usage_of_whole_replies_is_exact(shape: str, declared: bool) -> None:
    dialect, kind, body, usage = WHOLE[shape]
    reading = read(dialect, kind if declared else "", body)
    assert reading.usage == usage
    assert reading.complete
    assert reading.fault is None
    assert reading.id in ("msg_1", "resp_1", "c1", "g1")
    assert reading.model in ("claude-x", "gpt-x", "m", "gem")


SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


@pytest.mark.parametrize(
    ("dialect", "kind", "body"),
    [
        ("responses", STREAM, b"".join([*sse({"type": "response.output_item.done", "item": SEARCH}), *RESPONSES])),
        ("responses", JSON, json.dumps({**RESPONSE, "output": [SEARCH]}).encode()),
        (
            "gemini",
            STREAM,
            b"".join(
                [*sse(json.dumps({"candidates": [{"groundingMetadata": {"webSearchQueries": ["x"]}}]})), GEMINI[-1]]
            ),
        ),
    ],
)
def test_what_tools_of_the_api_did_is_told_as_extras(dialect: str, kind: str, body: bytes) -> None:
    reading = read(dialect, kind, body)
    assert reading.usage == dataclasses.replace(WHOLE[dialect][3], extras=True)
    assert reading.complete


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(WHOLE)), st.lists(st.integers(0, 5000), max_size=30))
def test_it_does_not_matter_where_a_reply_is_split(shape: str, places: list[int]) -> None:
    dialect, kind, body, usage = WHOLE[shape]
    bounds = sorted({0, len(body), *(place % len(body) for place in places)})
    reading = read(dialect, kind, *(body[a:b] for a, b in itertools.pairwise(bounds)))
    assert (reading.usage, reading.complete, reading.fault) == (usage, True, None)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["data: a", "data:b", "data", ": c", "event: x", "", "", "data: \u2028é"]), max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.integers(0, 200), max_size=20),
)
def test_events_are_the_same_however_they_are_split(lines: list[str], end: str, places: list[int]) -> None:
    body = "".join(line + end for line in lines).encode()
    bounds = sorted({0, len(body), *(place % (len(body) + 1) for place in places)})
    whole, parts = EventSplitter(), EventSplitter()
    expected = whole.feed(body) + whole.finish()
    found = [data for a, b in itertools.pairwise(bounds) for data in parts.feed(body[a:b])]
    assert found + parts.finish() == expected
    blocks = "\n".join([*lines, ""]).split("\n\n")
    assert len(expected) <= len(blocks)
    assert all(b"\r" not in data for data in expected)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(sorted(DIALECTS)),
    st.sampled_from([STREAM, JSON, ""]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from("type message usage id model response error choices usageMetadata candidates".split()),
                inner | st.sampled_from(["message_start", "message_delta", "response.completed", "error"]),
                max_size=5,
            )
        ),
        max_leaves=12,
    ),
)
def test_no_reply_can_break_the_reader(dialect: str, kind: str, value: Any) -> None:
    text = json.dumps(value).encode()
    reading = read(dialect, kind, b"data: " + text + b"\n\n" if kind != JSON else text)
    assert reading.usage.cost_usd is None or reading.usage.cost_usd >= 0


@pytest.mark.parametrize("body", [b"[" * 100_000, b"data: " + b"[" * 100_000 + b"\n\n", b"\xff\xfe{", b"data: {\n\n"])
def test_malformed_replies_are_faults_of_the_api(body: bytes) -> None:
    reading = read("messages", "", body)
    assert reading.fault is not None
    assert reading.fault[0] in (Cause.API_FAULT, Cause.CONNECTION)
    assert not reading.complete


@pytest.mark.parametrize("kind", [STREAM, JSON, ""])
def test_an_empty_reply_is_no_reply(kind: str) -> None:
    reading = read("responses", kind)
    assert (reading.complete, reading.usage) == (False, Usage())
    assert reading.fault is not None


def test_a_web_page_is_no_reply() -> None:
    for kind in ("text/html", ""):
        reading = read("messages", kind, b"<!DOCTYPE html>")
        assert (reading.complete, reading.usage) == (False, Usage())
        assert reading.fault is not None
        assert reading.fault[0] is Cause.API_FAULT


@pytest.mark.parametrize(
    ("dialect", "last", "cause"),
    [
        ("messages", {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, Cause.OVERLOADED),
        ("messages", {"type": "error", "error": {"type": "odd", "message": "quota billing"}}, Cause.API_FAULT),
        ("messages", {"type": "message_delta", "delta": {"stop_reason": "refusal"}}, Cause.REFUSED),
        ("messages", {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}}, Cause.OUTPUT_CUT),
        (
            "messages",
            {"type": "message_delta", "delta": {"stop_reason": "model_context_window_exceeded"}},
            Cause.CONTEXT_FULL,
        ),
        ("responses", {"type": "error", "code": "rate_limit_exceeded", "message": "m"}, Cause.RATE_LIMITED),
        (
            "responses",
            {"type": "response.failed", "response": {"error": {"code": "context_length_exceeded", "message": "m"}}},
            Cause.CONTEXT_FULL,
        ),
        (
            "responses",
            {
                "type": "response.incomplete",
                "response": {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            },
            Cause.OUTPUT_CUT,
        ),
        ("chat", {"error": {"code": 429, "message": "m"}}, Cause.RATE_LIMITED),
        ("chat", {"choices": [{"finish_reason": "content_filter"}]}, Cause.REFUSED),
        ("gemini", {"promptFeedback": {"blockReason": "OTHER"}}, Cause.REFUSED),
        ("gemini", {"error": {"code": 503, "status": "UNAVAILABLE"}}, Cause.OVERLOADED),
    ],
)
def test_what_a_reply_says_of_its_failure_is_typed(dialect: str, last: dict[str, Any], cause: Cause) -> None:
    reading = read(dialect, STREAM, *sse(json.dumps(last)))
    assert reading.fault is not None
    assert reading.fault[0] is cause


@pytest.mark.parametrize("written", ['{"cmd": "echo', None, 7])
def test_arguments_that_break_off_are_a_fault_of_a_whole_reply(written: object) -> None:
    item = {"type": "function_call", "name": "exec_command", "arguments": written}
    response = {"id": "r", "status": "completed", "output": [item], "usage": {"input_tokens": 3, "output_tokens": 4}}
    done = {"type": "response.output_item.done", "item": item}
    fault = (Cause.API_FAULT, "the arguments of a tool call are not JSON")
    for output in ([item], []):
        last = {"type": "response.completed", "response": {**response, "output": output}}
        reading = read("responses", STREAM, *sse(json.dumps(done), json.dumps(last)))
        assert (reading.complete, reading.fault) == (True, fault)
    assert read("responses", JSON, json.dumps(response).encode()).fault == fault
    item["arguments"] = "{}"
    assert read("responses", JSON, json.dumps(response).encode()).fault is None


def test_a_whole_reply_without_usage_is_a_reply_of_unknown_usage() -> None:
    reading = read("chat", STREAM, CHAT[0], CHAT[1], CHAT[3])
    assert reading.ended
    assert (reading.complete, reading.usage, reading.fault) == (True, Usage(), None)


def test_a_broker_s_part_alone_is_not_the_cost() -> None:
    body = json.dumps({"id": "c", "usage": {**CHAT_USAGE, "is_byok": True}}).encode()
    assert read("chat", JSON, body).usage.cost_usd is None


def test_a_later_zero_does_not_undo_what_the_start_told() -> None:
    delta = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    zeros = {"input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 7}
    reading = read("messages", STREAM, MESSAGE[0], *sse({**delta, "usage": zeros}), MESSAGE[3])
    assert reading.usage == Usage(11, 3, 5, 7)


STATUSES = [
    (400, {"type": "invalid_request_error"}, Cause.BAD_REQUEST),
    (400, {"code": "context_length_exceeded", "type": "invalid_request_error"}, Cause.CONTEXT_FULL),
    (400, {"status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}, Cause.AUTHENTICATION),
    (401, {"type": "invalid_request_error", "code": "invalid_api_key"}, Cause.AUTHENTICATION),
    (402, {}, Cause.BILLING),
    (403, {"type": "permission_error"}, Cause.AUTHENTICATION),
    (404, {"type": "not_found_error"}, Cause.BAD_REQUEST),
    (408, {}, Cause.CONNECTION),
    (409, {}, Cause.API_FAULT),
    (413, {}, Cause.BAD_REQUEST),
    (429, {"type": "rate_limit_error", "message": "insufficient_quota is only a word here"}, Cause.RATE_LIMITED),
    (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, Cause.BILLING),
    (500, {"type": "api_error"}, Cause.API_FAULT),
    (500, {"type": "invalid_request_error"}, Cause.API_FAULT),
    (503, {}, Cause.OVERLOADED),
    (504, {"type": "timeout_error"}, Cause.API_FAULT),
    (529, {"type": "overloaded_error"}, Cause.OVERLOADED),
]


@pytest.mark.parametrize(("status", "error", "cause"), STATUSES)
def test_cause_follows_from_status_and_code(status: int, error: dict[str, Any], cause: Cause) -> None:
    for body in (json.dumps({"error": {"message": "said", **error}}).encode(), {"error": error}):
        assert fault_of_response(status, {}, body)[0] is cause


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "1e999"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 01 Jan 1970 00:00:00 GMT"}, 0.0),
        ({"retry-after": "Thu, 99 Jan 99999 00:00:00 GMT"}, None),
        ({}, None),
    ],
)
def test_what_the_api_asks_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert fault_of_response(429, headers, b"")[2] == seconds


def test_a_date_and_a_detail_can_ask_to_wait_too() -> None:
    later = fault_of_response(429, {"retry-after": email.utils.formatdate(time.time() + 30, usegmt=True)}, b"")[2]
    assert later is not None
    assert 25 < later <= 30
    assert fault_of_response(429, {}, {"error": {"details": [{"retryDelay": "34s"}]}})[2] == 34.0


def test_a_message_is_short_clean_and_without_secrets() -> None:
    hide("sk-secret-value-77")
    _, message, _ = fault_of_response(400, {}, {"error": {"message": "\x1b[2Jbad sk-secret-value-77 " + "x" * 99_999}})
    assert "sk-secret-value-77" not in message
    assert "\x1b" not in message
    assert len(message) < 1200
    page = fault_of_response(502, {"content-type": "text/html"}, b"<html>")
    assert page == (Cause.API_FAULT, "HTTP status 502 with a body that is not JSON (text/html)", None)
