"""The HTTP side that all fakes share: calls in order, an exact ledger, waits that end with the connection."""

from __future__ import annotations

import contextlib
import gzip
import hmac
import json
import select
import socket
import struct
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from .script import Script
from .turns import Charged, Entry, Request, ScriptEntry, Tokens, Usage

Turns = Sequence[ScriptEntry | list[ScriptEntry]]
Conversations = bool | Callable[[Request], str]


class HungUp(Exception):
    """The client is gone, or the fake is being closed."""


class Exchange:
    """One call and the connection that its reply goes to. All methods but `pause` write; HungUp ends them."""

    def __init__(self, fake: Fake, handler: Handler, request: Request) -> None:
        self.fake = fake
        self.request = request
        self._handler = handler
        self._chunked = False

    def pause(self, seconds: float | None) -> None:
        """Wait, for None without end; raises HungUp as soon as the client or the fake closes the connection."""
        until = None if seconds is None else time.monotonic() + seconds
        while until is None or time.monotonic() < until:
            left = 0.2 if until is None else min(0.2, max(0.0, until - time.monotonic()))
            readable, _, _ = select.select([self._handler.connection], [], [], left)
            if readable:
                try:
                    gone = not self._handler.connection.recv(1, socket.MSG_PEEK)
                except OSError:
                    gone = True
                if gone or self.fake.closing.wait(left):
                    raise HungUp

    def begin(self, status: int, headers: Mapping[str, Any], length: int | None = None) -> None:
        """Send the head. Without a length the body goes out in chunks."""
        self._handler.send_response(status)
        self._handler.send_header("request-id", f"req_{uuid.uuid4().hex[:20]}")
        for name, value in headers.items():
            self._handler.send_header(name, str(value))
        self._chunked = length is None
        self._handler.send_header(
            *(("transfer-encoding", "chunked") if length is None else ("content-length", str(length)))
        )
        self._handler.end_headers()

    def write(self, data: bytes) -> None:
        if data:
            self._handler.wfile.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        if self._chunked:
            self._handler.wfile.write(b"0\r\n\r\n")

    def end_charged(self, last: bytes, charged: Charged) -> None:
        """Send the last bytes; the ledger has the entry before anyone who has read them can look at it."""
        with self.fake.books:
            self.write(last)
            self.end()
            self.fake.enter(charged)

    def json(self, status: int, body: Any, headers: Mapping[str, Any] | None = None) -> None:
        self.raw(status, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})

    def raw(self, status: int, body: bytes, headers: Mapping[str, Any]) -> None:
        self.begin(status, headers, len(body))
        if self._handler.command != "HEAD":
            self.write(body)

    def drop(self, reset: bool = False) -> None:
        """Close the connection with nothing more said; `reset` with a TCP reset."""
        if reset:
            self._handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._handler.close_connection = True
        raise HungUp


class Fake:
    """A scripted model API on the loopback device, from `with` to its end.

    `requests` are the model calls in order, `others` whatever else came in. `ledger` has what was charged: one entry
    for each reply that was sent to its end; `unfinished` has the replies that were begun and not ended.
    """

    path = ""

    def __init__(
        self,
        turns: Turns = (),
        *,
        key: str | None = None,
        loop: bool = False,
        script_per_conversation: Conversations = False,
        user_turns: Turns | None = None,
        sub_turns: Turns | None = None,
        port: int = 0,
    ) -> None:
        """`key`: others get 401. `user_turns` are for calls that offer no tools, `sub_turns` for calls of sub-agents.

        `script_per_conversation` gives each its own run through the script: by the first text of the user, or by what
        a function says of the call.
        """
        self.script = Script(turns, loop)
        self.user_script = None if user_turns is None else Script(user_turns, loop)
        self.sub_script = Script(sub_turns or (), loop)
        self.requests: list[Request] = []
        self.others: list[Request] = []
        self.unfinished: list[Charged] = []
        self.troubles: list[BaseException] = []
        self.books = threading.Lock()
        self.closing = threading.Event()
        self._ledger: list[Charged] = []
        self._replies = 0
        self._key = key
        self._conversations = script_per_conversation
        self._arrived = threading.Condition()
        self._server = Server(("127.0.0.1", port), type("BoundHandler", (Handler,), {"fake": self}))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self.troubles and error is None:
            raise AssertionError(f"the fake itself failed: {self.troubles[0]!r}") from self.troubles[0]

    def close(self) -> None:
        """Close the server and every connection, also those that hang. May be called twice."""
        if not self.closing.is_set():
            self.closing.set()
            if self._thread.is_alive():
                self._server.shutdown()
                self._thread.join(5)
            self._server.close_all()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{self.path}"

    @property
    def ledger(self) -> list[Charged]:
        with self.books:
            return list(self._ledger)

    @property
    def exhausted(self) -> bool:
        """A call came when its script was used up."""
        scripts = (self.script, self.sub_script, self.user_script)
        return any(script.exhausted for script in scripts if script is not None)

    def wait_for(self, calls: int, seconds: float = 30.0) -> None:
        """Wait until so many model calls have come in. Raises TimeoutError."""
        with self._arrived:
            if not self._arrived.wait_for(lambda: len(self.requests) >= calls, seconds):
                raise TimeoutError(f"{len(self.requests)} of {calls} calls in {seconds} seconds")

    def enter(self, charged: Charged) -> None:
        self._ledger.append(charged)

    def next_tokens(self, given: Usage) -> Tokens | None:
        """The usage of the next reply: other numbers each time, so that nothing can be taken for something else."""
        with self.books:
            number = self._replies
            self._replies += 1
        return None if given is False else self.default_tokens(number).over(given or {})

    def default_tokens(self, number: int) -> Tokens:
        return Tokens(100 + 10 * number, 5, 20, 7 + number)

    def take(self, request: Request) -> Entry:
        """The script's entry for a call."""
        script = self.script
        if self.is_sub_agent(request):
            script = self.sub_script
        elif self.user_script is not None and not self.offers_tools(request.body):
            script = self.user_script
        by = self._conversations
        conversation = by(request) if callable(by) else self.first_text(request.body) if by else ""
        return script.take(request, conversation)

    def receive(self, exchange: Exchange, method: str) -> None:
        """Note a call and answer it."""
        request = exchange.request
        if method != "POST" or not self.is_model_call(request.path.partition("?")[0]):
            self.others.append(request)
            return self.answer_other(exchange, method)
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()
        if not self._knows(request):
            return exchange.json(401, self.error_body(401, {"message": "invalid x-api-key"}))
        return self.answer(exchange)

    def _knows(self, request: Request) -> bool:
        if self._key is None:
            return True
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = (request.headers.get("x-api-key", ""), bearer, request.headers.get("x-goog-api-key", ""))
        return any(hmac.compare_digest(one.encode(), self._key.encode()) for one in given)

    def answer_other(self, exchange: Exchange, method: str) -> None:
        path = exchange.request.path.partition("?")[0]
        exchange.json(404, self.error_body(404, {"message": f"{method} {path} is not of this fake"}))

    def is_model_call(self, path: str) -> bool:
        raise NotImplementedError

    def answer(self, exchange: Exchange) -> None:
        raise NotImplementedError

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        raise NotImplementedError

    def offers_tools(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("tools"))

    def is_sub_agent(self, request: Request) -> bool:
        raise NotImplementedError

    def first_text(self, body: Mapping[str, Any]) -> str:
        raise NotImplementedError


class Server(ThreadingHTTPServer):
    """Keeps its connections, so that closing ends them all."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[Handler]) -> None:
        super().__init__(address, handler)
        self._fake = handler.fake
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Faults of a connection are told by the handler."""

    def close_all(self) -> None:
        self.server_close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        until = time.monotonic() + 30
        while self._open and time.monotonic() < until:
            time.sleep(0.005)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fake: Fake

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def handle(self) -> None:
        try:
            super().handle()
        except (HungUp, OSError):
            self.close_connection = True
        except Exception as error:
            self.fake.troubles.append(error)
            raise

    def do_POST(self) -> None:
        body = self._body()
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.path, headers, body, time.monotonic())
        exchange = Exchange(self.fake, self, request)
        if headers.get("upgrade", "").lower() == "websocket":
            exchange.json(426, self.fake.error_body(426, {"message": "this fake has no websocket"}))
        else:
            self.fake.receive(exchange, self.command)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_POST

    def _body(self) -> dict[str, Any]:
        raw = self._raw_body()
        if self.headers.get("content-encoding", "") == "gzip":
            raw = gzip.decompress(raw)
        try:
            body = json.loads(raw) if raw else {}
        except ValueError:
            return {"not_json": raw[:500].decode("latin-1")}
        return body if isinstance(body, dict) else {"not_an_object": body}

    def _raw_body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        whole = b""
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole
