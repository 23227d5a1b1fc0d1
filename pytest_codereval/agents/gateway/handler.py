"""Speaks HTTP with the program: reads its requests, checks its token, and writes what comes back."""

from __future__ import annotations

import contextlib
import hmac
import socket
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from . import provider_rules
from .forwarding import Call, ClientGone, ForwardedCall
from .request_body import BodyRefused, read_body

if TYPE_CHECKING:
    from .connections import Connections

_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers "
    "transfer-encoding upgrade".split()
)
_NOT_SENT = _HOP_BY_HOP | frozenset(
    "host content-length expect accept-encoding authorization x-api-key x-goog-api-key api-key cookie".split()
)
_LINGER = 2.0
"""Seconds for which a request that was refused unread is still received, so that its sender sees the answer."""


class Handler(BaseHTTPRequestHandler):
    """One connection of the program, which may carry several calls."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Connections
    _chunked = False
    _begun = False

    def handle(self) -> None:
        with contextlib.suppress(OSError, ClientGone):
            super().handle()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the base class calls for a request that is none."""
        self._refuse(code, message or "the request cannot be read")

    def _serve(self) -> None:
        self._begun = False
        split = self.path.partition("?")
        path, query = split[0], split[2]
        route = self.server.route
        if not self._authorised(query):
            self._refuse(401, "the token of this trial is missing or wrong")
            return
        path = provider_rules.provider_path(route.provider, path)
        endpoint = provider_rules.endpoint(route.provider, self.command, path)
        if endpoint is None:
            self._refuse(404, f"the gateway of the trial does not pass on {self.command} of this path")
            return
        try:
            with read_body(self.headers, self.rfile, self.server.room) as body:
                headers = {name.lower(): value for name, value in self.headers.items()}
                call = Call(
                    method=self.command,
                    path=path,
                    query=self._query(query),
                    headers=self._passed_on(),
                    body=body,
                    dialect=endpoint.dialect,
                    sub_agent=provider_rules.sub_agent(headers),
                )
                with self.server.under_way(ForwardedCall(route, call, self.connection)) as forwarded:
                    forwarded.run(self)
        except BodyRefused as refused:
            self._refuse(refused.status, str(refused))
        except BaseException:
            self.close_connection = True
            raise

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _serve

    def _authorised(self, query: str) -> bool:
        given = [self.headers.get("x-api-key"), self.headers.get("x-goog-api-key")]
        scheme, _, bearer = (self.headers.get("authorization") or "").partition(" ")
        given.append(bearer.strip() if scheme.lower() == "bearer" else None)
        given += [value for name, value in urllib.parse.parse_qsl(query) if name == "key"]
        token = self.server.token.encode()
        return any(hmac.compare_digest(one.encode("utf-8", "replace"), token) for one in given if one)

    def _query(self, query: str) -> str:
        """The query without the caller's key."""
        kept = [part for part in query.split("&") if part and urllib.parse.unquote(part.partition("=")[0]) != "key"]
        return "?" + "&".join(kept) if kept else ""

    def _passed_on(self) -> list[tuple[bytes, bytes]]:
        named = {name.strip().lower() for name in (self.headers.get("connection") or "").split(",")}
        headers = [
            (name.encode("latin-1", "replace"), value.strip().encode("latin-1", "replace"))
            for name, value in self.headers.items()
            if name.lower() not in _NOT_SENT and name.lower() not in named and self.server.token not in value
        ]
        return [*headers, (b"accept-encoding", b"identity")]

    def begin(self, status: int, reason: str, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
        """See `forwarding.Answer`."""
        self._begun = True
        bodiless = self.command == "HEAD" or status in (204, 304)
        self._chunked = length is None and not bodiless and self.request_version != "HTTP/1.0"
        self.close_connection = self.close_connection or (length is None and not bodiless and not self._chunked)
        self.send_response_only(status, reason)
        named = [value.lower().split(b",") for name, value in headers if name.lower() == b"connection"]
        dropped = {part.strip().decode("latin-1") for parts in named for part in parts} | _HOP_BY_HOP
        for name, value in headers:
            text = name.decode("latin-1")
            if text.lower() not in dropped and (text.lower() != "content-length" or length is not None or bodiless):
                self.send_header(text, value.decode("latin-1"))
        if self._chunked:
            self.send_header("Transfer-Encoding", "chunked")
        if self.close_connection:
            self.send_header("Connection", "close")
        self._send(self.end_headers)

    def write(self, piece: bytes) -> None:
        """See `forwarding.Answer`."""
        if piece:
            data = b"%x\r\n%b\r\n" % (len(piece), piece) if self._chunked else piece
            self._send(lambda: self.wfile.write(data))

    def end(self) -> None:
        """See `forwarding.Answer`."""
        if self._chunked:
            self._send(lambda: self.wfile.write(b"0\r\n\r\n"))

    def error(self, status: int, message: str) -> None:
        """See `forwarding.Answer`. After a reply has begun there is nothing to tell but its end."""
        if self._begun:
            raise ClientGone
        body = provider_rules.error_body(self.server.route.provider, status, message)
        self.close_connection = True
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Should-Retry", "true" if status >= 500 else "false")
        self.send_header("Connection", "close")
        self._send(self.end_headers)
        if self.command != "HEAD":
            self._send(lambda: self.wfile.write(body))

    def _refuse(self, status: int, message: str) -> None:
        """Answer a request whose body was not read, and receive the rest of it for a moment."""
        self.close_connection = True
        self.error(status, message)
        self.connection.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + _LINGER
        while (left := deadline - time.monotonic()) > 0:
            self.connection.settimeout(left)
            if not self.connection.recv(1 << 16):
                return

    def _send(self, action: Any) -> None:
        try:
            action()
        except OSError as error:
            raise ClientGone from error
