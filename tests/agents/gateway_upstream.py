"""A server that answers each call with given bytes, and clients, for the tests of the gateway."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pytest_codereval.agents.gateway.server import Gateway
from pytest_codereval.trajectory.model import ModelCall, ModelFault

KEY = "sk-real-key-0123456789"
ASK = {"model": "asked", "stream": True, "messages": []}
DEADLINE = 60.0


class Upstream(socketserver.ThreadingTCPServer):
    """`play(connection, number)` answers the call of that number; `heads` and `bodies` are what came, byte for byte."""

    daemon_threads = True

    def __init__(self, play: Callable[[socket.socket, int], None]) -> None:
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.gone = threading.Event()
        self._play = play
        super().__init__(("127.0.0.1", 0), None)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += request.recv(65536)
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += request.recv(65536)
        self.heads.append(head)
        self.bodies.append(body)
        with contextlib.suppress(OSError):
            self._play(request, len(self.heads))

    def until_gone(self, connection: socket.socket) -> None:
        """Wait, as a server that says nothing more, until the other end closes."""
        connection.settimeout(DEADLINE)
        with contextlib.suppress(ConnectionError):
            if connection.recv(1) != b"":
                return
        self.gone.set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests."""


@contextlib.contextmanager
def upstream(play: Callable[[socket.socket, int], None]) -> Iterator[Upstream]:
    server = Upstream(play)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def answering(*replies: bytes) -> Callable[[socket.socket, int], None]:
    """Each call gets the next of these, the last one again and again."""
    return lambda connection, number: connection.sendall(replies[min(number, len(replies)) - 1])


def reply(body: bytes, kind: str = "application/json", status: int = 200, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} Fine\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


def chunked(pieces: Sequence[bytes], kind: str = "text/event-stream", end: bool = True) -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    return head + b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in pieces) + (b"0\r\n\r\n" if end else b"")


def sse(*events: Any, end: str = "\n") -> list[bytes]:
    """Each event as bytes; a dict as Anthropic and OpenAI send it, a text as it is."""
    texts = [one if isinstance(one, str) else json.dumps(one) for one in events]
    kinds = [f"event: {one['type']}{end}" if isinstance(one, dict) and "type" in one else "" for one in events]
    return [f"{kind}data: {text}{end}{end}".encode() for kind, text in zip(kinds, texts, strict=True)]


MESSAGE = sse(
    {
        "type": "message_start",
        "message": {
            "id": "msg_1",
            "model": "claude-x",
            "usage": {
                "input_tokens": 11,
                "cache_creation_input_tokens": 3,
                "cache_read_input_tokens": 5,
                "output_tokens": 1,
            },
        },
    },
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hé\u2028llo"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 42}},
    {"type": "message_stop"},
)


class Client:
    """A program that calls through a gateway."""

    def __init__(self, gateway: Gateway, path: str = "/v1/messages", token: str | None = None) -> None:
        self.headers = {"x-api-key": token or gateway.token, "content-type": "application/json"}
        self._address = gateway.url.removeprefix("http://")
        self._path = path
        self.http = http.client.HTTPConnection(self._address, timeout=DEADLINE)

    def ask(self, body: Any = ASK, **headers: str) -> http.client.HTTPResponse:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.http.request("POST", self._path, data, {**self.headers, **headers})
        return self.http.getresponse()

    def all(self, body: Any = ASK, **headers: str) -> tuple[int, bytes]:
        """Status and whole body, what came of it if it broke off."""
        answer = self.ask(body, **headers)
        try:
            return answer.status, answer.read()
        except http.client.IncompleteRead as cut:
            return answer.status, cut.partial

    def vanish(self) -> None:
        """As a process that is killed."""
        if self.http.sock is not None:
            self.http.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.http.close()


def events_of(gateway: Gateway, wanted: int) -> list[ModelCall | ModelFault]:
    """So many events, waited for. Raises TimeoutError."""
    found: list[ModelCall | ModelFault] = []
    until(lambda: found.extend(gateway.events()) or len(found) >= wanted)
    return found


def until(condition: Callable[[], object]) -> None:
    """Poll until it is so. Raises TimeoutError."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.005)
