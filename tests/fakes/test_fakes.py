"""The fakes themselves: what they say, charge and do wrong, as a client sees it on the wire."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.fakes import (
    Charged,
    Fake,
    FakeAnthropic,
    FakeGemini,
    FakeOpenAI,
    fault,
    repeat,
    say,
    think,
    turn,
)

ROOT = Path(__file__).parents[2]
TEXT = "a text that is long enough for several pieces of a stream"
USER = [{"role": "user", "content": "hello"}]
# name -> the fake, where it is asked, what it is asked with, whether it streams
WAYS: dict[str, tuple[type[Fake], str, dict[str, Any], bool]] = {
    "messages-stream": (FakeAnthropic, "/v1/messages?beta=true", {"messages": USER, "stream": True}, True),
    "messages": (FakeAnthropic, "/v1/messages", {"messages": USER}, False),
    "responses-stream": (FakeOpenAI, "/v1/responses", {"input": USER, "stream": True}, True),
    "responses": (FakeOpenAI, "/v1/responses", {"input": "hello"}, False),
    "chat-stream": (
        FakeOpenAI,
        "/v1/chat/completions",
        {"messages": USER, "stream": True, "stream_options": {"include_usage": True}},
        True,
    ),
    "chat": (FakeOpenAI, "/v1/chat/completions", {"messages": USER}, False),
    "gemini-stream": (
        FakeGemini,
        "/v1beta/models/fake-1:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
        True,
    ),
    "gemini": (
        FakeGemini,
        "/v1beta/models/fake-1:generateContent",
        {"contents": [{"parts": [{"text": "hello"}]}]},
        False,
    ),
}
every_way = pytest.mark.parametrize("way", WAYS)


def ask(
    fake: Fake, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None, method: str = "POST"
) -> tuple[int, bytes]:
    """Status and body of one call."""
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(fake.url).port or 0, timeout=20)
    try:
        connection.request(method, path, json.dumps({"model": "fake-1", **body}), dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def asked(way: str, *turns: Any, **options: Any) -> tuple[int, bytes, Fake]:
    made, path, body, _ = WAYS[way]
    with made(turns, **options) as fake:
        status, answer = ask(fake, path, body)
    return status, answer, fake


def events(answer: bytes) -> list[dict[str, Any]]:
    lines = (line.removeprefix(b"data: ") for line in answer.splitlines() if line.startswith(b"data: "))
    return [json.loads(line) for line in lines if line != b"[DONE]"]


def texts(told: Any) -> Iterator[str]:
    """Every text anywhere in a reply, in order."""
    for name, value in told.items() if isinstance(told, dict) else enumerate(told):
        if isinstance(value, dict | list):
            yield from texts(value)
        elif name in ("text", "delta", "content") and isinstance(value, str):
            yield value


def counts(told: Any) -> list[dict[str, int]]:
    """Every usage object anywhere in a reply."""
    if isinstance(told, list):
        return [found for one in told for found in counts(one)]
    if not isinstance(told, dict):
        return []
    own = [told[name] for name in ("usage", "usageMetadata") if told.get(name)]
    return own + [found for one in told.values() for found in counts(one)]


def bucketed(usage: Mapping[str, Any]) -> tuple[int, int]:
    """All input and all output of any provider's usage object."""
    if "promptTokenCount" in usage:
        return usage["promptTokenCount"], usage["candidatesTokenCount"]
    if "prompt_tokens" in usage:
        return usage["prompt_tokens"], usage["completion_tokens"]
    cached = usage.get("cache_creation_input_tokens", 0) + usage.get("cache_read_input_tokens", 0)
    return usage["input_tokens"] + cached, usage["output_tokens"]


@every_way
def test_a_reply_says_its_text_and_what_the_ledger_charges(way: str) -> None:
    status, answer, fake = asked(way, turn(think("hm"), say(TEXT)))
    told = events(answer) if WAYS[way][3] else json.loads(answer)
    (charged,) = fake.ledger
    assert status == 200
    assert TEXT in "".join(texts(told))
    assert None not in (charged.input_tokens, charged.cache_read_tokens, charged.cache_creation_tokens)
    whole_input = charged.input_tokens + charged.cache_read_tokens + charged.cache_creation_tokens  # type: ignore[operator]
    assert bucketed(counts(told)[-1]) == (whole_input, charged.output_tokens)
    assert charged.model == "fake-1"


def test_each_reply_has_another_usage_and_a_given_one_goes_over_it() -> None:
    with FakeAnthropic([say("a"), say("b", usage={"output_tokens": 1000}), say("c", usage=False, model="m")]) as fake:
        for _ in range(3):
            _, answer = ask(fake, "/v1/messages", {"messages": USER})
        assert "usage" not in json.loads(answer)
        assert fake.ledger == [
            Charged("fake-1", 100, 5, 20, 7),
            Charged("fake-1", 110, 5, 20, 1000),
            Charged("m", None, None, None, None),
        ]


def test_cached_input_of_openai_is_inside_its_input() -> None:
    spent = {"input_tokens": 1, "cache_read_tokens": 2, "cache_creation_tokens": 4, "output_tokens": 8}
    _, answer, fake = asked("responses", say("a", usage=spent))
    told = json.loads(answer)["usage"]
    assert fake.ledger == [Charged("fake-1", 1, 4, 2, 8)]
    assert (told["input_tokens"], told["total_tokens"]) == (7, 15)
    assert told["input_tokens_details"] == {"cached_tokens": 2, "cache_write_tokens": 4}


def test_the_ledger_is_never_behind_a_client_that_has_read_its_reply() -> None:
    with FakeAnthropic([say("x")], loop=True) as fake:
        for number in range(40):
            ask(fake, "/v1/messages", {"messages": USER, "stream": bool(number % 2)})
            assert len(fake.ledger) == number + 1


KEYS = [
    ({"x-api-key": "right"}, 200),
    ({"authorization": "Bearer right"}, 200),
    ({"x-goog-api-key": "right"}, 200),
    ({"x-api-key": "wrong"}, 401),
    ({}, 401),
]


@every_way
def test_only_the_key_is_let_in(way: str) -> None:
    made, path, body, _ = WAYS[way]
    with made([say("in")], key="right", loop=True) as fake:
        assert [ask(fake, path, body, headers)[0] for headers, _ in KEYS] == [status for _, status in KEYS]
        assert (len(fake.requests), len(fake.ledger)) == (5, 3)


@every_way
def test_a_status_is_answered_and_costs_nothing(way: str) -> None:
    made, path, body, _ = WAYS[way]
    statuses = [400, 401, 402, 403, 404, 429, 500, 503, 529]
    with made([fault(status, message="so it is", retry_after=3) for status in statuses]) as fake:
        answers = [ask(fake, path, body) for _ in statuses]
        assert [status for status, _ in answers] == statuses
        assert {json.loads(answer)["error"]["message"] for _, answer in answers} == {"so it is"}
        assert fake.ledger == []


def test_a_status_tells_when_to_come_back() -> None:
    with FakeAnthropic([fault(429, retry_after=7, type="odd_error", headers={"x-should-retry": "true"})]) as fake:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(fake.url).port or 0, timeout=20)
        connection.request("POST", "/v1/messages", json.dumps({"model": "m", "messages": USER}))
        answer = connection.getresponse()
        assert (answer.headers["retry-after"], answer.headers["x-should-retry"]) == ("7", "true")
        assert json.load(answer)["error"]["type"] == "odd_error"
        connection.close()


@every_way
def test_broken_replies_look_broken(way: str) -> None:
    streams = WAYS[way][3]
    _, broken, spoilt = asked(way, fault("malformed_json"))
    with pytest.raises(ValueError):
        events(broken) if streams else json.loads(broken)
    assert len(spoilt.ledger) == 1
    _, page, _ = asked(way, fault("html"))
    assert page.startswith(b"<!DOCTYPE html>")
    status, nothing, _ = asked(way, fault("empty"))
    assert (status, nothing) == (200, b"")


@every_way
@pytest.mark.parametrize("how", ["end", "drop", "reset"])
def test_a_cut_reply_is_not_charged_but_noted(way: str, how: str) -> None:
    made, path, body, streams = WAYS[way]
    whole = asked(way, say("The beginning of an answer that may never have an end."))[1]
    with made([fault("cut", after=1, how=how)]) as fake:
        if how == "end" and streams:
            answer = ask(fake, path, body)[1]
            assert 0 < len(answer) < len(whole)
            assert len(events(answer)) == 1
        else:
            with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
                ask(fake, path, body)
    assert (fake.ledger, len(fake.unfinished)) == ([], 1)


@every_way
def test_a_reset_comes_before_any_answer(way: str) -> None:
    with pytest.raises((ConnectionResetError, http.client.RemoteDisconnected)):
        asked(way, fault("reset"))


@every_way
def test_an_error_inside_a_stream(way: str) -> None:
    status, answer, fake = asked(way, fault("sse_error", after=1, message="too busy"))
    assert b"too busy" in answer
    assert status == (200 if WAYS[way][3] else 529)
    assert fake.ledger == []


@every_way
@pytest.mark.parametrize("kind", ["refusal", "max_tokens"])
def test_a_reply_that_stops_for_another_reason_is_charged(way: str, kind: str) -> None:
    status, answer, fake = asked(way, fault(kind))
    words = {
        "refusal": (b'"refusal"', b"content_filter", b"SAFETY"),
        "max_tokens": (b'"max_tokens"', b"max_output_tokens", b"length", b"MAX_TOKENS"),
    }
    assert status == 200
    assert any(word in answer for word in words[kind])
    assert len(fake.ledger) == 1


@every_way
def test_a_full_context_is_refused(way: str) -> None:
    status, answer, fake = asked(way, fault("context_full"))
    assert status == (200 if way == "responses-stream" else 400)
    assert any(word in answer for word in (b"too long", b"context_length_exceeded", b"exceeds the maximum"))
    assert fake.ledger == []


def test_arguments_of_a_tool_call_break_off() -> None:
    _, answer, _ = asked("messages-stream", fault("truncated_tool"))
    deltas = [one["delta"] for one in events(answer) if one["type"] == "content_block_delta"]
    with pytest.raises(ValueError):
        json.loads("".join(delta["partial_json"] for delta in deltas))
    assert events(answer)[-1]["type"] == "message_stop"
    _, answer, _ = asked("chat", fault("truncated_tool"))
    with pytest.raises(ValueError):
        json.loads(json.loads(answer)["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])


def test_a_slow_reply_comes_byte_by_byte_and_is_charged_at_its_end() -> None:
    with FakeAnthropic([fault("slow_drip", seconds=0.001, reply=say("hi"))]) as fake:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(fake.url).port or 0, timeout=20)
        connection.request("POST", "/v1/messages", json.dumps({"model": "m", "messages": USER}))
        answer = connection.getresponse()
        first = answer.read(1)
        assert fake.ledger == []
        assert json.loads(first + answer.read())["content"][0]["text"] == "hi"
        assert len(fake.ledger) == 1
        connection.close()


@pytest.mark.parametrize(
    "silent",
    [fault("hang"), fault("hang", after=2), fault("slow_drip", seconds=600), say("late", delay=600)],
    ids=["hang", "hang-in-stream", "slow_drip", "delay"],
)
def test_closing_ends_every_wait(silent: Any) -> None:
    ended: list[BaseException | bytes] = []

    def client() -> None:
        try:
            ended.append(ask(fake, "/v1/messages", {"messages": USER, "stream": True})[1])
        except (OSError, http.client.HTTPException) as error:
            ended.append(error)

    with FakeAnthropic([silent]) as fake:
        thread = threading.Thread(target=client)
        thread.start()
        fake.wait_for(1)
    thread.join(60)
    assert not thread.is_alive()
    assert isinstance(ended[0], http.client.HTTPException | OSError)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", urlsplit(fake.url).port or 0), 1).close()


def test_a_client_that_leaves_frees_the_fake_at_once() -> None:
    with FakeAnthropic([fault("hang", after=2)]) as fake:
        connection = socket.create_connection(("127.0.0.1", urlsplit(fake.url).port or 0))
        body = json.dumps({"model": "m", "messages": USER, "stream": True}).encode()
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        assert connection.recv(10)
        connection.close()
        until = time.monotonic() + 60
        while not fake.unfinished and time.monotonic() < until:
            time.sleep(0.01)
        assert len(fake.unfinished) == 1


def said(fake: Fake, text: str = "hello", headers: Mapping[str, str] | None = None, **body: Any) -> str:
    asked_with = {"messages": [{"role": "user", "content": text}], **body}
    return str(json.loads(ask(fake, "/v1/messages", asked_with, headers)[1])["content"][0]["text"])


def test_a_script_is_played_once_or_again_and_again() -> None:
    with FakeAnthropic([repeat(say("a"), 2), say("b")]) as fake:
        assert [said(fake) for _ in range(3)] == ["a", "a", "b"]
        assert not fake.exhausted
        assert said(fake) == "the script is used up"
        assert fake.exhausted
    with FakeAnthropic([say("a"), say("b")], loop=True) as fake:
        assert [said(fake) for _ in range(5)] == ["a", "b", "a", "b", "a"]
        assert not fake.exhausted


def test_each_conversation_has_its_own_run_through_the_script() -> None:
    with FakeAnthropic([say("a"), say("b")], script_per_conversation=True) as fake:
        assert [said(fake, "one"), said(fake, "two"), said(fake, "two"), said(fake, "one")] == ["a", "a", "b", "b"]
    by_key: Callable[[Any], str] = lambda request: request.headers["x-api-key"]  # noqa: E731
    with FakeAnthropic([say("a"), say("b")], script_per_conversation=by_key) as fake:
        assert [said(fake, headers={"x-api-key": key}) for key in "xyx"] == ["a", "a", "b"]


def test_helpers_and_the_simulated_user_have_scripts_of_their_own() -> None:
    tools = [{"name": "Bash", "input_schema": {}}]
    with FakeAnthropic([say("main")], user_turns=[say("user")], sub_turns=[say("sub")]) as fake:
        assert said(fake) == "user"
        assert said(fake, tools=tools, headers={"x-claude-code-agent-id": "1"}) == "sub"
        assert said(fake, tools=tools) == "main"
    with FakeAnthropic([say("main")]) as fake:
        assert said(fake) == "main"


def test_an_entry_may_be_made_from_the_call_and_its_mistake_is_told() -> None:
    with FakeAnthropic([lambda request: say(request.body["messages"][0]["content"] + "!")]) as fake:
        assert said(fake, "hello") == "hello!"
    broken = FakeAnthropic([lambda request: say(request.body["nothing"])])
    with pytest.raises(AssertionError, match="nothing"), broken, pytest.raises(http.client.RemoteDisconnected):
        said(broken)


def test_other_calls_are_tolerated_and_kept_apart() -> None:
    with FakeAnthropic([]) as fake:
        assert ask(fake, "/", {}, method="HEAD")[0] == 200
        assert ask(fake, "/api/hello", {}, method="GET")[0] == 200
        assert json.loads(ask(fake, "/v1/messages/count_tokens", {"messages": USER})[1])["input_tokens"] > 0
        assert ask(fake, "/v1/unknown", {})[0] == 404
        assert (len(fake.requests), len(fake.others)) == (0, 4)
        assert ask(fake, "/v1/messages", {})[0] == 400


@pytest.mark.parametrize(
    ("kind", "options", "said"),
    [("hangs", {}, "did you mean 'hang'"), ("cut", {"befor": 1}, "befor"), (429, {"after": 1}, "after")],
)
def test_a_misspelt_fault_is_refused(kind: int | str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fault(kind, **options)


def test_one_in_the_foreground_plays_a_file(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    written = {"turns": [{"turn": ["from a file", {"call": "Bash", "input": {"command": "ls"}}]}, {"fault": 529}]}
    script.write_text(json.dumps(written), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.fakes", "anthropic", "--play", str(script), "--key", "k"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path) as running:
        assert running.stdout is not None
        exported = dict(running.stdout.readline().split()[1].split("=", 1) for _ in range(2))
        connection = http.client.HTTPConnection(urlsplit(exported["ANTHROPIC_BASE_URL"]).netloc, timeout=20)
        statuses = []
        for _ in range(2):
            headers = {"x-api-key": exported["ANTHROPIC_API_KEY"]}
            connection.request("POST", "/v1/messages", json.dumps({"model": "m", "messages": USER}), headers)
            answer = connection.getresponse()
            statuses.append(answer.status)
            body = answer.read()
            assert b"from a file" in body or answer.status == 529
        connection.close()
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
    assert statuses == [200, 529]
