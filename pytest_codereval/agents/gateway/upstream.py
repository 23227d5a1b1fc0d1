"""One connection to a provider: opened for one call, broken off at any moment from another thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...model_api.stream import trusted_certificates

if TYPE_CHECKING:
    import httpx2

Headers = Sequence[tuple[bytes, bytes]]

TIMEOUTS: Mapping[str, float | None] = {"connect": 15.0, "read": 600.0, "write": 600.0, "pool": None}
"""Seconds for each single operation. How long a call may take is its caller's to say."""


class Aborted(Exception):
    """The call was broken off from this side."""


class Client:
    """The HTTP client of one gateway, made at the first call. Proxies and certificates follow the environment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: httpx2.Client | None = None

    def get(self) -> httpx2.Client:
        import httpx2

        with self._lock:
            if self._client is None:
                fresh_each_time = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
                self._client = httpx2.Client(
                    verify=trusted_certificates(), limits=fresh_each_time, follow_redirects=False
                )
            return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()


class UpstreamCall:
    """One request to the provider. `sent` tells that it may have been received whole."""

    def __init__(self, client: Client) -> None:
        self.sent = False
        self.aborted = False
        self._client = client
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None

    @contextlib.contextmanager
    def open(self, method: str, url: str, headers: Headers, body: bytes) -> Iterator[httpx2.Response]:
        """The reply, its body unread. Raises what httpx2 raises, and Aborted."""
        import httpx2

        extensions = {"timeout": dict(TIMEOUTS), "trace": self._trace}
        content = None if method in ("GET", "HEAD") and not body else body
        request = httpx2.Request(method, url, headers=list(headers), content=content, extensions=extensions)
        try:
            response = self._client.get().send(request, stream=True)
            try:
                yield response
            finally:
                response.close()
        except Exception as error:
            if self.aborted:
                raise Aborted from error
            raise
        finally:
            with self._lock:
                if self._socket is not None:
                    self._socket.close()
                    self._socket = None

    def abort(self) -> None:
        """Break off, whatever the call waits for."""
        with self._lock:
            self.aborted = True
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def _trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Keep a second handle on the connection: the first one changes hands when TLS begins."""
        if event == "connection.connect_tcp.complete":
            raw = info["return_value"].get_extra_info("socket")
            with self._lock:
                if self._socket is not None:
                    self._socket.close()
                self._socket = raw.dup()
        elif event == "http11.send_request_body.complete":
            self.sent = True
        if self.aborted and not event.endswith(".failed") and "response_closed" not in event:
            raise Aborted
