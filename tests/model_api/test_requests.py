"""What is sent to the API, and with which credentials."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.model_api.messages import MessagesApi
from tests.fakes import FakeAnthropic, Request, fault, say, think, turn

from .conftest import KEY

REQUEST: dict[str, Any] = {"model": "claude-fake-1", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}


def sent(request: dict[str, Any] | None = None) -> Request:
    with FakeAnthropic([say("ok")]) as fake:
        api = MessagesApi(fake.url)
        api.ask(request or REQUEST, clock.monotonic() + 20, lambda event: None)
        api.close()
        return fake.requests[0]


def test_the_body_is_what_was_asked_for_and_streamed() -> None:
    request = {**REQUEST, "system": "be brief", "output_config": {"effort": "low"}, "some_new_key": [1, {"a": None}]}
    assert sent(request).body == {**request, "stream": True}


def test_the_key_of_the_harness_is_all_that_is_sent_as_one() -> None:
    headers = sent().headers
    assert headers["x-api-key"] == KEY
    assert "authorization" not in headers


def test_a_token_is_sent_as_a_bearer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "fake-token-0123456789")
    headers = sent().headers
    assert headers["authorization"] == "Bearer fake-token-0123456789"
    assert "x-api-key" not in headers


def test_what_else_the_sdk_would_look_at_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "default.json").write_text("{broken", encoding="utf-8")
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_PROFILE", "other")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-secret: 1\nauthorization: Bearer other\nx-api-key: other")
    headers = sent().headers
    assert headers["x-api-key"] == KEY
    assert not {"x-secret", "authorization"} & set(headers)


def test_without_a_key_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(AgentError) as raised:
        MessagesApi("http://127.0.0.1:1")
    assert raised.value.cause is Cause.NO_CREDENTIALS
    assert "ANTHROPIC_API_KEY" in str(raised.value)


def test_a_redirect_is_not_followed_with_the_key() -> None:
    with FakeAnthropic([say("stolen")]) as other:
        moved = fault(307, headers={"location": f"{other.url}/v1/messages"})
        with FakeAnthropic([[moved] * 4]) as fake, pytest.raises(AgentError):
            MessagesApi(fake.url, first_wait=0.001).ask(REQUEST, clock.monotonic() + 20, lambda event: None)
        assert other.requests == []


def test_one_connection_serves_many_calls_and_no_thread_is_left() -> None:
    with FakeAnthropic([say("again")], loop=True) as fake:
        api = MessagesApi(fake.url)
        for _ in range(5):
            assert api.ask(REQUEST, clock.monotonic() + 20, lambda event: None).text == "again"
            assert [one for one in threading.enumerate() if one.name == "codereval-model-call"] == []
        api.close()


def test_thoughts_come_with_their_signature() -> None:
    with FakeAnthropic([turn(think("Let me see. " * 20), say("Done."))]) as fake:
        api = MessagesApi(fake.url)
        reply = api.ask(REQUEST, clock.monotonic() + 20, lambda event: None)
        api.close()
    thought, text = reply.content
    assert thought["thinking"] == "Let me see. " * 20
    assert thought["signature"]
    assert (text, reply.text) == ({"type": "text", "text": "Done."}, "Done.")
