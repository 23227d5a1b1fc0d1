"""A reply is whole and makes sense, or it is a fault."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.errors import Cause
from pytest_codereval.model_api.assembly import Assembly, Reply, without_surrogates
from pytest_codereval.model_api.stream import Fault

Event = dict[str, Any]

START: Event = {"type": "message_start", "message": {"id": "m1", "model": "x", "usage": {"input_tokens": 3}}}
STOP: Event = {"type": "message_stop"}


def stopped(reason: object = "end_turn", **usage: object) -> list[Event]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, STOP]


def block(content: Event, *deltas: Event, index: int = 0) -> list[Event]:
    begun: Event = {"type": "content_block_start", "index": index, "content_block": content}
    pieces = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [begun, *pieces, {"type": "content_block_stop", "index": index}]


def tool(*pieces: str, id: str = "t1", name: str = "bash", index: int = 0) -> list[Event]:
    deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block({"type": "tool_use", "id": id, "name": name, "input": {}}, *deltas, index=index)


def assemble(*events: Event | list[Event]) -> Reply:
    assembly = Assembly()
    for one in events:
        for event in one if isinstance(one, list) else [one]:
            assembly.add(event)
    return assembly.reply()


@pytest.mark.parametrize(
    "events",
    [
        [],
        [STOP],
        [START, START, *stopped()],
        [START, STOP],
        [START, *stopped(None)],
        [START, *stopped(7)],
        [{"type": "message_start"}],
        [{"type": "message_start", "message": []}],
        [START, {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}],
        [START, {"type": "content_block_start", "index": "0", "content_block": {}}],
        [START, {"type": "content_block_start", "index": 0, "content_block": "text"}],
        [START, *block({"type": "text", "text": ""}, {"type": "text_delta", "text": 5}), *stopped()],
        [START, *block({"type": "text"}), *stopped()],
        [START, *block({}), *stopped()],
        [START, *block({"type": "tool_use", "name": "bash", "input": {}}), *stopped("tool_use")],
        [START, *block({"type": "tool_use", "id": "t1", "name": "bash"}), *stopped("tool_use")],
        [START, *tool('{"command": "rm -rf '), *stopped("tool_use")],
        [START, *tool('["ls"]'), *stopped("tool_use")],
        [START, *tool('{"timeout": NaN}'), *stopped("tool_use")],
        [START, *tool("[" * 100_000), *stopped("tool_use")],
        [START, *tool("{}"), *tool("{}", index=1), *stopped("tool_use")],
    ],
)
def test_nonsense_is_a_fault_of_the_api(events: list[Event]) -> None:
    with pytest.raises(Fault) as raised:
        assemble(events)
    assert raised.value.cause is Cause.API_FAULT


def test_a_reply_without_its_last_event_broke_off() -> None:
    with pytest.raises(Fault) as raised:
        assemble(START, block({"type": "text", "text": "half"}), stopped()[:1])
    assert raised.value.cause is Cause.CONNECTION


def test_texts_and_inputs_are_put_together() -> None:
    reply = assemble(
        START,
        {"type": "ping"},
        {"type": "an_event_of_tomorrow"},
        block({"type": "text", "text": ""}, {"type": "text_delta", "text": "a"}, {"type": "text_delta", "text": "b"}),
        tool('{"comm', 'and": "l', 's"}', index=1),
        tool(index=2, id="t2"),
        stopped("tool_use"),
    )
    assert [block.get("text") or block.get("input") for block in reply.content] == ["ab", {"command": "ls"}, {}]
    assert (reply.id, reply.model, reply.stop_reason, reply.text) == ("m1", "x", "tool_use", "ab")


def test_blocks_of_unknown_type_are_kept_as_they_came() -> None:
    strange = {"type": "redacted_thinking", "data": "x", "more": [1]}
    assert assemble(START, block(strange), stopped()).content == (strange,)


def test_later_usage_replaces_earlier_and_nonsense_counts_as_unknown() -> None:
    usage = assemble(START, stopped(input_tokens=9, output_tokens=4, cache_read_input_tokens=-1)).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (9, 4, None)
    usage = assemble(START, stopped(output_tokens=True, cache_creation_input_tokens="7")).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_creation_tokens) == (3, None, None)


def test_a_reply_in_many_blocks_takes_no_longer_than_its_size() -> None:
    count = 20_000
    deltas = [{"type": "text_delta", "text": "a"}, {"type": "citations_delta", "citation": {}}]
    events = [event for index in range(count) for event in block({"type": "text", "text": ""}, *deltas, index=index)]
    last = block({"type": "text", "text": "", "citations": [1]}, *deltas[1:] * count, index=count)
    reply = assemble(START, events, last, stopped())
    assert [one["text"] for one in reply.content] == ["a"] * count + [""]
    assert len(reply.content[-1]["citations"]) == count + 1


def test_halves_of_surrogate_pairs_are_joined_and_lone_ones_replaced() -> None:
    value = {"a": ["\ud83d\ude00", "\ud800!"], "ü": 1}
    assert without_surrogates(value) == {"a": ["\U0001f600", "\ufffd!"], "ü": 1}


KEYS = ["type", "index", "delta", "content_block", "message", "usage", "text", "id", "input", "error", "stop_reason"]
TYPES = ["message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "error"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)
EVENTS = st.builds(
    lambda kind, rest: {**rest, "type": kind}, st.sampled_from(TYPES), st.dictionaries(st.sampled_from(KEYS), VALUES)
)


@given(st.lists(EVENTS, max_size=6), st.booleans())
def test_no_events_break_it(events: list[Event], begun: bool) -> None:
    with contextlib.suppress(Fault):
        assemble([START] if begun else [], events)
