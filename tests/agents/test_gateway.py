"""The gateway between an agent's program and its model, seen from both of its ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_codereval.agents.gateway import outbox
from pytest_codereval.agents.gateway.server import Gateway
from pytest_codereval.agents.limits import Meter as LimitsMeter
from pytest_codereval.agents.limits import Stop
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.task.setting_models import RunLimits
from pytest_codereval.trajectory.model import ModelCall, ModelFault, Usage
from pytest_codereval.trajectory.prices import PriceList

from .gateway_upstream import (
    ASK,
    DEADLINE,
    KEY,
    MESSAGE,
    Client,
    answering,
    chunked,
    events_of,
    reply,
    sse,
    until,
    upstream,
)

Open = Callable[..., Gateway]
VARIABLES = {"anthropic": "ANTHROPIC", "openai": "OPENAI", "gemini": "GEMINI"}
START_ONLY = Usage(input_tokens=11, cache_creation_tokens=3, cache_read_tokens=5, output_tokens=None)
WHOLE = Usage(input_tokens=11, cache_creation_tokens=3, cache_read_tokens=5, output_tokens=42)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Gateways to a URL, closed at the end."""
    for name in (*os.environ,):
        if name.lower().endswith("_proxy") or name.startswith(
            ("ANTHROPIC_", "OPENAI_", "GEMINI_", "GOOGLE_", "CODEX_")
        ):
            monkeypatch.delenv(name)
    with contextlib.ExitStack() as stack:

        def open_(
            url: str,
            provider: str = "anthropic",
            admit: Callable[[bool], bool] = lambda main: True,
            *,
            one_at_a_time: bool = False,
        ) -> Gateway:
            base = {"gemini": "GOOGLE_GEMINI_BASE_URL"}.get(provider, f"{VARIABLES[provider]}_BASE_URL")
            monkeypatch.setenv(base, url)
            monkeypatch.setenv(f"{VARIABLES[provider]}_API_KEY", KEY)
            gateway = Gateway(provider, admit, one_at_a_time)
            stack.callback(gateway.close)
            return gateway

        yield open_


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


def test_a_stream_passes_byte_for_byte_and_its_usage_is_told(opened: Open) -> None:
    with upstream(answering(chunked(MESSAGE))) as server:
        gateway = opened(server.url)
        status, body = Client(gateway, "/v1/messages?beta=true").all()
        assert (status, body) == (200, b"".join(MESSAGE))
        assert is_readable(gateway.wake)
        (call,) = gateway.events()
        assert not is_readable(gateway.wake)
        assert isinstance(call, ModelCall)
        assert (call.id, call.model, call.usage, call.complete) == ("msg_1", "claude-x", WHOLE, True)
        assert call.parent_id is None
        assert server.heads[0].startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\n")
        assert server.bodies == [json.dumps(ASK).encode()]


@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream"])
def test_any_body_of_any_status_passes_unchanged(opened: Open, kind: str) -> None:
    body = bytes(range(256)) * 4000
    with upstream(
        answering(reply(body, kind, 418, "x-odd: 1\r\nx-odd: 2\r\nconnection: x-hop\r\nx-hop: 1\r\n"))
    ) as server:
        gateway = opened(server.url)
        answer = Client(gateway).ask(body)
        assert answer.read() == body
        assert (answer.status, answer.reason) == (418, "Fine")
        assert answer.headers.get_all("x-odd") == ["1", "2"]
        assert answer.headers["x-hop"] is None
        assert server.bodies == [body]


def test_an_event_reaches_the_program_before_the_next_one_is_sent(opened: Open) -> None:
    go = threading.Event()

    def play(connection: socket.socket, number: int) -> None:
        whole = chunked(MESSAGE)
        first = whole.index(MESSAGE[1])
        connection.sendall(whole[:first])
        assert go.wait(DEADLINE)
        connection.sendall(whole[first:])

    with upstream(play) as server:
        gateway = opened(server.url)
        answer = Client(gateway).ask()
        assert answer.read1() == MESSAGE[0]
        assert list(gateway.events()) == []
        go.set()
        assert answer.read() == b"".join(MESSAGE[1:])
        assert len(events_of(gateway, 1)) == 1


def test_the_key_stays_on_one_side_and_the_token_on_the_other(opened: Open) -> None:
    echo = f'{{"error": {{"type": "authentication_error", "message": "no such key: {KEY}"}}}}'.encode()
    with upstream(answering(reply(echo, status=401, headers=f"x-echo: {KEY}\r\n"))) as server:
        gateway = opened(server.url)
        token = gateway.token
        answer = Client(gateway, f"/v1/messages?key={token}&a=1").ask(
            authorization="Bearer another-secret", cookie="a=b", **{"x-own": f"({token})", "x-kept": "1"}
        )
        seen = str(answer.headers).encode() + answer.read()
        head = server.heads[0].decode().lower()
        (fault,) = gateway.events()
    assert KEY.encode() not in seen
    assert f"x-api-key: {KEY}" in head
    assert token not in head
    assert "x-kept: 1" in head
    assert "cookie" not in head
    assert "authorization" not in head
    assert "/v1/messages?a=1 " in head
    assert "accept-encoding: identity" in head
    assert isinstance(fault, ModelFault)
    assert fault.cause is Cause.AUTHENTICATION
    assert KEY not in repr(fault)
    assert KEY not in repr(vars(gateway))


def test_a_key_in_pieces_of_a_stream_is_blanked_too(opened: Open) -> None:
    text = f"data: {KEY}{KEY} and {KEY[:9]}\n\n".encode()
    with upstream(answering(chunked([bytes([one]) for one in text]))) as server:
        _, body = Client(opened(server.url)).all()
    blank = "*" * len(KEY)
    assert body == f"data: {blank}{blank} and {KEY[:9]}\n\n".encode()


@pytest.mark.parametrize(
    ("provider", "path", "head"),
    [
        ("anthropic", "/v1/messages", f"x-api-key: {KEY}"),
        ("openai", "/v1/responses", f"authorization: Bearer {KEY}"),
        ("openai", "/v1/chat/completions", f"authorization: Bearer {KEY}"),
        ("gemini", "/v1beta/models/g-1:streamGenerateContent?alt=sse", f"x-goog-api-key: {KEY}"),
    ],
)
def test_each_provider_gets_its_key_below_its_base(opened: Open, provider: str, path: str, head: str) -> None:
    with upstream(answering(reply(b"{}"))) as server:
        gateway = opened(f"{server.url}/base/v9", provider)
        client = Client(gateway, path)
        for header in ("x-api-key", "x-goog-api-key", "authorization"):
            client.headers = {header: gateway.token if header != "authorization" else f"Bearer {gateway.token}"}
            assert client.all()[0] == 200
            events_of(gateway, 1)
    expected = "/base/v9" + (path.removeprefix("/v1") if provider == "openai" else path)
    assert {one.decode().split(" ")[1] for one in server.heads} == {expected}
    assert all(head in one.decode() for one in server.heads)


@pytest.mark.parametrize("provider", VARIABLES)
def test_without_the_token_nothing_is_sent(opened: Open, provider: str) -> None:
    with upstream(answering(reply(b"{}"))) as server:
        gateway = opened(server.url, provider)
        for token in ("wrong", gateway.token[:-1], "é"):
            status, body = Client(gateway, "/v1/messages", token.encode().decode("latin-1")).all()
            assert status == 401
            assert "message" in json.loads(body)["error"]
        assert server.heads == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/messages/batches",
        "/v1/messages/../files",
        "/v1/messages/%2e%2e/files",
        "//evil.invalid/v1/messages",
        "http://evil.invalid/v1/messages",
        "/v1/messages%0d%0ax: y",
    ],
)
def test_what_cannot_be_counted_or_is_no_path_of_the_api_is_not_passed_on(opened: Open, path: str) -> None:
    with upstream(answering(reply(b"{}"))) as server:
        status, body = raw(opened(server.url), f"POST {path} HTTP/1.1", "content-length: 2", "", "{}")
        assert status == 404 or b"400" in body[:20]
        assert server.heads == []


def raw(gateway: Gateway, *lines: str) -> tuple[int, bytes]:
    """Send these lines, the token behind the first; the status and all that came, 0 when it was nothing."""
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), DEADLINE) as connection:
        text = "\r\n".join([lines[0], f"x-api-key: {gateway.token}", "connection: close", *lines[1:]])
        connection.sendall(text.encode("latin-1"))
        data = b""
        with contextlib.suppress(ConnectionError):
            while piece := connection.recv(65536):
                data += piece
    return (int(data.split(b" ")[1]) if data.startswith(b"HTTP/1.1 ") else 0), data


@pytest.mark.parametrize(
    "lines",
    [
        ("POST /v1/messages HTTP/1.1", "content-length: 3", "content-length: 4", "", "{}"),
        ("POST /v1/messages HTTP/1.1", "content-length: -1", "", "{}"),
        ("POST /v1/messages HTTP/1.1", "content-length: 2", "transfer-encoding: chunked", "", "{}"),
        ("POST /v1/messages HTTP/1.1", "transfer-encoding: chunked", "", "zz", "{}", ""),
        ("POST /v1/messages HTTP/1.1", "transfer-encoding: chunked", "", "1", "{}", ""),
        ("POST /v1/messages HTTP/1.1", "transfer-encoding: gzip", "", "{}"),
        ("POST /v1/messages HTTP/9.9", "", ""),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "", ""),
        ("POST", "", ""),
        ("POST /" + "x" * 70000 + " HTTP/1.1", "", ""),
        ("POST /v1/messages HTTP/1.1", *(f"x-{n}: 1" for n in range(200)), "", ""),
    ],
)
def test_garbage_does_not_kill_it(opened: Open, lines: tuple[str, ...]) -> None:
    with upstream(answering(chunked(MESSAGE))) as server:
        gateway = opened(server.url)
        status, _ = raw(gateway, *lines)
        assert status == 0 or 400 <= status < 600
        assert server.heads == []
        assert Client(gateway).all()[0] == 200
        assert len(list(gateway.events())) == 1


def test_a_request_in_chunks_arrives_whole(opened: Open) -> None:
    with upstream(answering(chunked(MESSAGE))) as server:
        gateway = opened(server.url)
        client = Client(gateway)
        pieces = iter([b'{"mod', b'el": "x"}'])
        client.http.request("POST", "/v1/messages", pieces, client.headers, encode_chunked=True)
        assert client.http.getresponse().read() == b"".join(MESSAGE)
        assert server.bodies == [b'{"model": "x"}']


def test_a_request_that_is_too_large_is_told_so(opened: Open) -> None:
    with upstream(answering(reply(b"{}"))) as server:
        status, _ = raw(opened(server.url), "POST /v1/messages HTTP/1.1", "content-length: 100000001", "", "{}")
        assert status == 413
        assert server.heads == []


def test_a_redirect_is_not_followed(opened: Open) -> None:
    with upstream(answering(reply(b"", status=307, headers="location: /v1/elsewhere\r\n"))) as server:
        gateway = opened(server.url)
        assert Client(gateway).all()[0] == 307
        (fault,) = gateway.events()
        assert isinstance(fault, ModelFault)
        assert fault.cause is Cause.BAD_REQUEST
        assert len(server.heads) == 1


def test_calls_that_ask_no_model_are_no_events(opened: Open) -> None:
    with upstream(answering(reply(b'{"input_tokens": 3}'), reply(b"{}", status=404))) as server:
        gateway = opened(server.url, admit=lambda main: False)
        client = Client(gateway, "/v1/messages/count_tokens")
        assert client.all() == (200, b'{"input_tokens": 3}')
        assert client.all() == (404, b"{}")
        assert list(gateway.events()) == []
        assert not gateway.refused


def test_no_connection_is_a_fault_and_a_502(opened: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    gateway = opened(f"http://127.0.0.1:{port}")
    status, body = Client(gateway).all()
    (fault,) = gateway.events()
    assert status == 502
    assert json.loads(body)["error"]["type"] == "api_error"
    assert isinstance(fault, ModelFault)
    assert (fault.cause, fault.status) == (Cause.CONNECTION, None)


def test_a_reset_before_the_reply_leaves_unknown_what_was_used(opened: Open) -> None:
    with upstream(lambda connection, number: connection.close()) as server:
        gateway = opened(server.url)
        assert Client(gateway).all()[0] == 502
        call, fault = gateway.events()
    assert isinstance(call, ModelCall)
    assert (call.model, call.usage, call.complete) == ("asked", Usage(), False)
    assert isinstance(fault, ModelFault)
    assert (fault.id, fault.cause) == (call.id, Cause.CONNECTION)


@pytest.mark.parametrize("how", ["clean", "unfinished"])
@pytest.mark.parametrize("after", [1, 2])
def test_a_cut_stream_is_cut_for_the_program_too(opened: Open, how: str, after: int) -> None:
    with upstream(answering(chunked(MESSAGE[:after], end=how == "clean"))) as server:
        gateway = opened(server.url)
        answer = Client(gateway).ask()
        if how == "clean":
            assert answer.read() == b"".join(MESSAGE[:after])
        else:
            with pytest.raises(http.client.IncompleteRead):
                answer.read()
        call, fault = events_of(gateway, 2)
    assert isinstance(call, ModelCall)
    assert (call.id, call.usage, call.complete) == ("msg_1", START_ONLY, False)
    assert isinstance(fault, ModelFault)
    assert (fault.id, fault.cause) == ("msg_1", Cause.CONNECTION)


@pytest.mark.parametrize("begun", [True, False])
def test_when_the_program_goes_away_the_call_is_broken_off_at_once(opened: Open, begun: bool) -> None:
    def play(connection: socket.socket, number: int) -> None:
        if begun:
            connection.sendall(chunked(MESSAGE[:2], end=False))
        server.until_gone(connection)

    with upstream(play) as server:
        gateway = opened(server.url)
        client = Client(gateway)
        if begun:
            client.ask().read1()
        else:
            client.http.request("POST", "/v1/messages", json.dumps(ASK), client.headers)
            until(lambda: server.heads)
        client.vanish()
        assert server.gone.wait(DEADLINE)
        gateway.settle()
        (call,) = gateway.events()
    assert isinstance(call, ModelCall)
    assert (call.usage, call.complete) == (START_ONLY if begun else Usage(), False)


def test_settling_does_not_wait_for_a_program_that_lives_on(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_codereval.agents.gateway.server.SETTLING", 0.3)

    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(chunked(MESSAGE[:1], end=False))
        server.until_gone(connection)

    with upstream(play) as server:
        gateway = opened(server.url)
        client = Client(gateway)
        answer = client.ask()
        answer.read1()
        gateway.settle()
        (call,) = gateway.events()
        assert isinstance(call, ModelCall)
        assert call.usage == START_ONLY
        assert server.gone.wait(DEADLINE)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()


def test_the_program_may_leave_when_it_has_seen_the_end(opened: Open) -> None:
    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(chunked(MESSAGE, end=False))
        server.until_gone(connection)

    with upstream(play) as server:
        gateway = opened(server.url)
        client = Client(gateway)
        answer = client.ask()
        seen = b""
        while b"message_stop" not in seen:
            seen += answer.read1()
        client.vanish()
        gateway.settle()
        (call,) = gateway.events()
        assert isinstance(call, ModelCall)
        assert (call.usage, call.complete) == (WHOLE, True)


def test_sub_agents_are_told_apart(opened: Open) -> None:
    asked: list[bool] = []

    def admit(main: bool) -> bool:
        asked.append(main)
        return True

    done = {"type": "response.completed", "response": {"id": "r1", "usage": {"input_tokens": 1, "output_tokens": 2}}}
    with upstream(answering(chunked(MESSAGE), chunked(sse(done)))) as server:
        gateway = opened(server.url, admit=admit)
        Client(gateway).all(**{"x-claude-code-agent-id": "a17"})
        (claude,) = events_of(gateway, 1)
        other = opened(server.url, "openai", admit)
        client = Client(other, "/v1/responses")
        client.headers = {"authorization": f"bearer {other.token}"}
        client.all(**{"thread-id": "t2", "session-id": "t1", "x-codex-parent-thread-id": "t1"})
        (codex,) = events_of(other, 1)
        client.all(**{"thread-id": "t1", "session-id": "t1"})
        (main,) = events_of(other, 1)
    assert isinstance(claude, ModelCall)
    assert isinstance(codex, ModelCall)
    assert isinstance(main, ModelCall)
    assert (claude.parent_id, codex.parent_id, main.parent_id) == ("a17", "t2", None)
    assert asked == [False, False, True]
    assert (codex.id, main.id) == ("r1", "r1#2")


def test_caps_are_exact_also_for_calls_that_are_made_at_once(opened: Open) -> None:
    meter = LimitsMeter(RunLimits(max_turns=4), PriceList())
    failing = reply(b"{}", status=500)
    begun = threading.Barrier(20)

    def ask() -> None:
        begun.wait()
        with contextlib.suppress(OSError, http.client.HTTPException):
            Client(gateway).all()

    with upstream(answering(failing, failing, chunked(MESSAGE))) as server:
        gateway = opened(server.url, admit=meter.admit, one_at_a_time=True)
        threads = [threading.Thread(target=ask) for _ in range(20)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            select.select([gateway.wake], [], [], 0.01)
            for event in gateway.events():
                meter.take(event)
        assert len(server.bodies) == 2 + 4
    assert meter.stop is Stop.TURNS


def test_a_call_that_hangs_holds_others_of_the_main_thread_back_for_a_while_only(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play(connection: socket.socket, number: int) -> None:
        if number == 1:
            server.until_gone(connection)
        else:
            connection.sendall(chunked(MESSAGE))

    with upstream(play) as server:
        gateway = opened(server.url, one_at_a_time=True)
        hanging = Client(gateway)
        hanging.http.request("POST", "/v1/messages", json.dumps(ASK), hanging.headers)
        until(lambda: server.bodies)
        assert Client(gateway).all(**{"x-claude-code-agent-id": "a1"})[0] == 200
        assert len(events_of(gateway, 1)) == 1
        monkeypatch.setattr(outbox, "LONGEST_CALL", 0.05)
        assert Client(gateway).all()[0] == 200
        assert len(events_of(gateway, 1)) == 1
        monkeypatch.undo()
        hanging.vanish()
        (cut,) = events_of(gateway, 1)
        assert isinstance(cut, ModelCall)
        assert not cut.complete
        assert Client(gateway).all()[0] == 200


@pytest.mark.parametrize(
    ("provider", "path", "kind"),
    [
        ("anthropic", "/v1/messages", ["error", "type"]),
        ("openai", "/v1/responses", ["error", "type"]),
        ("gemini", "/v1beta/models/g:generateContent", ["error", "status"]),
    ],
)
def test_a_refused_call_is_never_sent(opened: Open, provider: str, path: str, kind: list[str]) -> None:
    with upstream(answering(reply(b"{}"))) as server:
        gateway = opened(server.url, provider, lambda main: False)
        assert not gateway.refused
        answer = Client(gateway, path).ask()
        told = json.loads(answer.read())
        assert (answer.status, answer.headers["x-should-retry"]) == (400, "false")
        assert told[kind[0]][kind[1]].lower() in ("invalid_request_error", "invalid_argument")
        assert gateway.refused
        assert is_readable(gateway.wake)
        assert list(gateway.events()) == []
        assert is_readable(gateway.wake)
        assert server.heads == []


def test_a_call_is_sent_when_every_reply_seen_before_it_was_taken(opened: Open) -> None:
    taken: list[ModelCall | ModelFault] = []
    seen: list[int] = []
    early: list[tuple[int, int]] = []

    def play(connection: socket.socket, number: int) -> None:
        known = int(server.heads[number - 1].partition(b"x-seen: ")[2].partition(b"\r")[0])
        if len(taken) < known:
            early.append((len(taken), known))
        connection.sendall(chunked(MESSAGE))

    def work() -> None:
        for _ in range(6):
            Client(gateway).all(**{"x-seen": str(len(seen))})
            seen.append(1)

    with upstream(play) as server:
        gateway = opened(server.url)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        until(lambda: taken.extend(gateway.events()) or len(taken) == 24)
        for thread in threads:
            thread.join()
    assert early == []
    assert len({event.id for event in taken}) == 24


def test_a_cap_is_exact_for_a_program_that_asks_without_a_pause(opened: Open) -> None:
    taken: list[ModelCall | ModelFault] = []
    with upstream(answering(chunked(MESSAGE))) as server:
        gateway = opened(server.url, admit=lambda main: len(taken) < 5)
        client = Client(gateway)
        statuses: list[int] = []
        asking = threading.Thread(target=lambda: statuses.extend(client.all()[0] for _ in range(7)))
        asking.start()
        while not gateway.refused:
            select.select([gateway.wake], [], [], DEADLINE)
            taken.extend(gateway.events())
        asking.join()
        assert statuses == [200] * 5 + [400] * 2
        assert len(server.heads) == len(taken) == 5


def test_an_event_is_taken_when_its_consumer_comes_back_or_leaves(opened: Open) -> None:
    with upstream(answering(chunked(MESSAGE))) as server:
        gateway = opened(server.url)
        Client(gateway).all()
        events = gateway.events()
        first = next(events)
        waiting = threading.Thread(target=Client(gateway).all)
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive()
        assert len(server.heads) == 1
        events.close()
        waiting.join(DEADLINE)
        assert len(server.heads) == 2
        assert is_readable(gateway.wake)
        (second,) = gateway.events()
        assert (first.id, second.id) == ("msg_1", "msg_1#2")


def test_a_harness_that_takes_nothing_cannot_stop_the_program_for_ever(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_codereval.agents.gateway.outbox.LONGEST_WAIT", 0.2)
    with upstream(answering(chunked(MESSAGE))) as server:
        gateway = opened(server.url)
        client = Client(gateway)
        assert [client.all()[0] for _ in range(2)] == [200, 200]
        assert len(list(gateway.events())) == 2


def test_a_word_for_a_key_is_not_blanked_out(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with upstream(answering(reply(b"none at all"))) as server:
        opened(server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        gateway = Gateway("anthropic", lambda main: True)
        try:
            assert Client(gateway).all() == (200, b"none at all")
        finally:
            gateway.close()


def test_a_base_that_is_no_url_is_a_mistake_of_configuration(opened: Open) -> None:
    gateway = opened("api.invalid/v1")
    assert Client(gateway).all()[0] == 502
    (fault,) = gateway.events()
    assert isinstance(fault, ModelFault)
    assert fault.cause is Cause.CONFIGURATION


def test_the_proxy_of_the_environment_is_used(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with upstream(answering(chunked(MESSAGE))) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        gateway = opened("http://api.invalid")
        assert Client(gateway).all()[0] == 200
        assert proxy.heads[0].startswith(b"POST http://api.invalid/v1/messages HTTP/1.1")


def test_what_admit_raises_reaches_the_harness_and_the_call_is_not_made(opened: Open) -> None:
    def admit(main: bool) -> bool:
        raise ValueError("a mistake in the harness")

    with upstream(answering(reply(b"{}"))) as server:
        gateway = opened(server.url, admit=admit)
        assert Client(gateway).all()[0] == 400
        with pytest.raises(ValueError, match="a mistake in the harness"):
            list(gateway.events())
        assert server.heads == []


def test_what_is_left_to_tell_is_told_before_what_admit_raised() -> None:
    def admit(main: bool) -> bool:
        raise ValueError("a mistake in the harness")

    waiting = outbox.Outbox(admit)
    try:
        assert not waiting.admit(True, lambda: False)
        waiting.put(ModelCall("late", "x"))
        told = waiting.take()
        assert next(told).id == "late"
        with pytest.raises(ValueError, match="a mistake in the harness"):
            next(told)
    finally:
        waiting.close()


def test_a_call_that_is_admitted_after_it_was_settled_holds_nobody_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_codereval.agents.gateway.server.SETTLING", 0.1)
    asked, decide = threading.Event(), threading.Event()

    def admit(main: bool) -> bool:
        asked.set()
        return decide.wait(DEADLINE)

    with upstream(answering(chunked(MESSAGE))) as server:
        gateway = opened(server.url, admit=admit, one_at_a_time=True)
        late = Client(gateway)
        late.http.request("POST", "/v1/messages", json.dumps(ASK), late.headers)
        assert asked.wait(DEADLINE)
        gateway.settle()
        decide.set()
        assert Client(gateway).all()[0] == 200
        assert len(events_of(gateway, 1)) == 1
        late.vanish()


def test_a_gateway_that_cannot_be_opened_leaves_nothing_behind(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no port is left")

    with upstream(answering(chunked(MESSAGE))) as server:
        opened(server.url)
        before = threading.active_count(), descriptors()
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no port is left"):
            patch.setattr("socket.create_server", fail)
            Gateway("anthropic", lambda main: True)
        assert (threading.active_count(), descriptors()) == before


def test_closing_ends_what_is_under_way_and_tells_it(opened: Open) -> None:
    def play(connection: socket.socket, number: int) -> None:
        connection.sendall(chunked(MESSAGE[:1], end=False))
        server.until_gone(connection)

    with upstream(play) as server:
        before = threading.active_count(), descriptors()
        gateway = opened(server.url)
        clients = [Client(gateway) for _ in range(5)]
        answers = [client.ask() for client in clients]
        idle = socket.create_connection(("127.0.0.1", int(gateway.url.rpartition(":")[2])))
        for answer in answers:
            answer.read1()
        gateway.close()
        gateway.close()
        assert [event.usage for event in gateway.events() if isinstance(event, ModelCall)] == [START_ONLY] * 5
        for client, answer in zip(clients, answers, strict=True):
            answer.close()
            client.http.close()
        idle.close()
        until(lambda: (threading.active_count(), descriptors()) <= before)


def test_fifty_gateways_leave_no_descriptor_and_no_thread(opened: Open) -> None:
    with upstream(answering(chunked(MESSAGE))) as server:

        def use() -> None:
            gateway = opened(server.url)
            client = Client(gateway)
            assert client.all()[0] == 200
            assert len(list(gateway.events())) == 1
            gateway.close()
            client.http.close()

        use()
        until(lambda: threading.active_count() <= 3)
        before = descriptors()
        for _ in range(50):
            use()
        until(lambda: descriptors() <= before)
        assert threading.active_count() <= 3


def test_a_missing_key_is_told_by_the_names_of_its_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("CODEX_API_KEY", raising=False)
    with pytest.raises(AgentError, match="OPENAI_API_KEY or CODEX_API_KEY") as caught:
        Gateway("openai", lambda main: True)
    assert caught.value.cause is Cause.NO_CREDENTIALS
