"""Every way in which a call of the model goes wrong is a typed fault, tried again or not, and told."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.model_api.messages import MessagesApi
from pytest_codereval.model_api.patience import LONGEST_WAIT, TRIES, wait_after
from pytest_codereval.trajectory.model import UNKNOWN, ModelCall, ModelFault
from tests.fakes import FakeAnthropic, call, fault, say

from .conftest import KEY

REQUEST = {
    "model": "claude-fake-1",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "bash_20250124", "name": "bash"}],
}
THREAD = "codereval-model-call"
Told = list[ModelCall | ModelFault]


def faults(told: Told) -> list[ModelFault]:
    return [one for one in told if isinstance(one, ModelFault)]


def calls(told: Told) -> list[ModelCall]:
    return [one for one in told if isinstance(one, ModelCall)]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    until(lambda: not threads())


def ask(url: str, told: Told, seconds: float = 20) -> Any:
    api = MessagesApi(url, first_wait=0.001)
    try:
        return api.ask(REQUEST, clock.monotonic() + seconds, told.append)
    finally:
        api.close()


# status or kind, options, cause, whether it is tried again, whether the try may have cost something
TABLE: list[tuple[int | str, dict[str, Any], Cause, bool, bool]] = [
    (429, {}, Cause.RATE_LIMITED, True, False),
    (529, {}, Cause.OVERLOADED, True, False),
    (503, {}, Cause.OVERLOADED, True, False),
    (500, {}, Cause.API_FAULT, True, False),
    (401, {}, Cause.AUTHENTICATION, False, False),
    (403, {}, Cause.AUTHENTICATION, False, False),
    (402, {}, Cause.BILLING, False, False),
    (400, {}, Cause.BAD_REQUEST, False, False),
    (404, {}, Cause.BAD_REQUEST, False, False),
    ("cut", {"after": 3}, Cause.CONNECTION, True, True),
    ("cut", {"after": 3, "how": "drop"}, Cause.CONNECTION, True, True),
    ("reset", {}, Cause.CONNECTION, True, True),
    ("reset", {"after": 3}, Cause.CONNECTION, True, True),
    ("malformed_json", {}, Cause.API_FAULT, True, True),
    ("truncated_tool", {}, Cause.API_FAULT, True, True),
    ("html", {}, Cause.API_FAULT, True, True),
    ("html", {"status": 502}, Cause.API_FAULT, True, False),
    ("empty", {}, Cause.API_FAULT, True, True),
    ("sse_error", {}, Cause.OVERLOADED, True, True),
    ("sse_error", {"after": 0}, Cause.OVERLOADED, True, False),
    ("sse_error", {"type": "api_error"}, Cause.API_FAULT, True, True),
]


@pytest.mark.parametrize(("kind", "options", "cause", "again", "asked"), TABLE)
def test_a_fault_is_typed_told_and_tried_again_where_that_helps(
    kind: int | str, options: dict[str, Any], cause: Cause, again: bool, asked: bool
) -> None:
    told: Told = []
    with FakeAnthropic([[fault(kind, **options)] * TRIES.get(cause, 1), say("too late")]) as fake:
        with pytest.raises(AgentError) as raised:
            ask(fake.url, told)
        assert raised.value.cause is cause
        assert len(fake.requests) == (TRIES[cause] if again else 1)
        assert [one.cause for one in faults(told)] == [cause] * len(fake.requests)
        assert len(calls(told)) == (len(fake.requests) if asked else 0)
        assert {one.id for one in calls(told)} <= {one.id for one in faults(told)}
        assert str(raised.value) == faults(told)[-1].message


@pytest.mark.parametrize("kind", [429, 529, 500, "cut", "malformed_json", "truncated_tool", "html", "empty", "reset"])
def test_after_a_fault_that_passes_the_reply_is_whole(kind: int | str) -> None:
    told: Told = []
    with FakeAnthropic([fault(kind), fault(kind), say("here I am")]) as fake:
        reply = ask(fake.url, told)
    assert (reply.text, reply.stop_reason) == ("here I am", "end_turn")
    assert len(faults(told)) == 2
    assert [one.complete for one in calls(told)][-1:] == [True]
    assert told[-1] is calls(told)[-1]


def test_what_broken_replies_used_is_told_and_what_is_not_known_is_not_zero() -> None:
    told: Told = []
    with FakeAnthropic([fault("cut", after=3), fault("empty"), call("Bash", command="ls")]) as fake:
        ask(fake.url, told)
        begun, unknown, whole = calls(told)
        assert (begun.complete, begun.usage.input_tokens) == (False, fake.unfinished[0].input_tokens)
        assert (unknown.complete, unknown.usage) == (False, UNKNOWN)
        charged = fake.ledger[-1]
        assert whole.complete
        assert (whole.usage.input_tokens, whole.usage.output_tokens) == (charged.input_tokens, charged.output_tokens)
        assert whole.usage.cache_creation_tokens == charged.cache_creation_tokens
        assert whole.usage.cache_read_tokens == charged.cache_read_tokens


def test_a_reply_without_usage_is_complete_and_of_unknown_usage() -> None:
    told: Told = []
    with FakeAnthropic([say("free of charge?", usage=False)]) as fake:
        ask(fake.url, told)
    assert [(one.complete, one.usage) for one in calls(told)] == [(True, UNKNOWN)]


@pytest.mark.parametrize("kind", ["refusal", "max_tokens"])
def test_a_reply_that_ends_early_says_so(kind: str) -> None:
    with FakeAnthropic([fault(kind)]) as fake:
        assert ask(fake.url, []).stop_reason == kind


def test_a_tool_call_that_max_tokens_cut_off_is_no_call() -> None:
    with FakeAnthropic([fault("truncated_tool", reply=call_cut_by_max_tokens())]) as fake:
        reply = ask(fake.url, [])
    assert (reply.stop_reason, reply.content) == ("max_tokens", ())


def call_cut_by_max_tokens() -> Any:
    from tests.fakes import turn

    return turn(call("Bash", command="rm -rf everything that is"), stop_reason="max_tokens")


def test_retry_after_is_waited_for() -> None:
    with FakeAnthropic([fault(429, retry_after=0.4), say("ok")]) as fake:
        ask(fake.url, [])
        assert fake.requests[1].time - fake.requests[0].time >= 0.4


def test_a_retry_after_that_does_not_fit_ends_at_once() -> None:
    told: Told = []
    with FakeAnthropic([fault(429, retry_after=3000), say("ok")]) as fake, pytest.raises(AgentError) as raised:
        ask(fake.url, told, seconds=600)
    assert (raised.value.cause, raised.value.retry_after) == (Cause.RATE_LIMITED, 3000)
    assert [one.retry_after for one in faults(told)] == [3000]


def test_the_own_wait_doubles_is_capped_and_never_less_than_asked_for() -> None:
    assert 0.75 <= wait_after(1, None, 1.0) <= 1.25
    assert 3 <= wait_after(3, None, 1.0) <= 5
    assert wait_after(20, None, 1.0) == LONGEST_WAIT
    assert wait_after(1, 90, 1.0) == 90
    assert wait_after(1, 0, 1.0) >= 0.75


@pytest.mark.parametrize(("kind", "options"), [("hang", {}), ("hang", {"after": 3}), ("slow_drip", {})])
def test_no_wait_outlasts_the_deadline(kind: str, options: dict[str, Any]) -> None:
    told: Told = []
    with FakeAnthropic([fault(kind, **options)]) as fake:
        begin = time.monotonic()
        with pytest.raises(AgentError) as raised:
            ask(fake.url, told, seconds=2)
        assert time.monotonic() - begin > 1.9
        assert raised.value.cause is Cause.TURN_TIMEOUT
        until(lambda: not threads())
    assert [one.cause for one in faults(told)] == [Cause.TURN_TIMEOUT]
    assert [one.complete for one in calls(told)] == [False]


def test_a_server_that_takes_no_connection_up_does_not_outlast_the_deadline() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(1)
        with pytest.raises(AgentError) as raised:
            ask(f"http://127.0.0.1:{listening.getsockname()[1]}", [], seconds=0.5)
    assert raised.value.cause is Cause.TURN_TIMEOUT


def test_a_name_service_that_does_not_answer_does_not_outlast_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def look_up(*args: object, **options: object) -> Any:
        release.wait(30)
        raise socket.gaierror("no such host")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        with pytest.raises(AgentError) as raised:
            ask("http://api.invalid", [], seconds=0.5)
    finally:
        release.set()
    assert raised.value.cause is Cause.TURN_TIMEOUT


def test_an_interrupt_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    told: Told = []
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with FakeAnthropic([fault("hang", after=3)]) as fake:

            def send() -> None:
                fake.wait_for(1)
                os.kill(os.getpid(), signal.SIGUSR1)

            sender = threading.Thread(target=send)
            sender.start()
            with pytest.raises(KeyboardInterrupt):
                ask(fake.url, told, seconds=60)
            sender.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [one.complete for one in calls(told)] == [False]


def test_nobody_listens() -> None:
    told: Told = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(AgentError) as raised:
            ask(f"http://127.0.0.1:{taken.getsockname()[1]}", told)
    assert raised.value.cause is Cause.CONNECTION
    assert len(faults(told)) == TRIES[Cause.CONNECTION]
    assert calls(told) == []


@pytest.mark.parametrize("url", ["localhost:1", "http://127.0.0.1:http", "ftp://127.0.0.1"])
def test_a_base_url_that_cannot_be_used_is_a_mistake_in_the_configuration(url: str) -> None:
    with pytest.raises(AgentError) as raised:
        ask(url, [])
    assert raised.value.cause is Cause.CONFIGURATION


@pytest.mark.parametrize("key", ["fake-key\nwith-two-lines", "fake-key-mit-ümläut"])
def test_a_key_that_cannot_be_sent_is_not_shown(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    told: Told = []
    with FakeAnthropic([say("ok")]) as fake, pytest.raises(AgentError) as raised:
        ask(fake.url, told)
    assert raised.value.cause is Cause.CONFIGURATION
    assert "fake-key" not in f"{raised.value} {told}"


def test_a_key_that_the_api_repeats_is_not_told() -> None:
    told: Told = []
    with (
        FakeAnthropic([fault(401, message=f"no such key: {KEY}")]) as fake,
        pytest.raises(AgentError) as raised,
    ):
        ask(fake.url, told)
    assert "no such key" in str(raised.value)
    assert KEY not in f"{raised.value} {told}"
