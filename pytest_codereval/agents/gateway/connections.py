"""The connections of a gateway, the calls under way, and their end."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from collections.abc import Iterator
from typing import Any

from ... import clock
from .forwarding import ForwardedCall, Route
from .handler import Handler
from .request_body import Room

MOST_CONNECTIONS = 100


class Connections(socketserver.ThreadingTCPServer):
    """Serves the connections that it is given."""

    daemon_threads = True

    def __init__(self, route: Route, token: str) -> None:
        self.route = route
        self.token = token
        self.room = Room()
        self._open: dict[Any, threading.Thread] = {}
        self._calls: set[ForwardedCall] = set()
        self._changed = threading.Condition()
        self._ended = False
        super().__init__(("127.0.0.1", 0), Handler, bind_and_activate=False)
        self.socket.close()

    def take(self, connection: socket.socket) -> None:
        """Serve a connection in a thread of its own."""
        self.process_request(connection, ("sandbox", 0))

    @contextlib.contextmanager
    def under_way(self, call: ForwardedCall) -> Iterator[ForwardedCall]:
        with self._changed:
            self._calls.add(call)
            ended = self._ended
        try:
            if ended:
                call.abort()
            yield call
        finally:
            with self._changed:
                self._calls.discard(call)
                self._changed.notify_all()

    def settle(self, patience: float) -> None:
        """Wait for the calls under way; those that last longer are broken off and told as they stand."""
        with self._changed:
            if self._changed.wait_for(lambda: not self._calls, patience):
                return
            left = list(self._calls)
        for call in left:
            call.abort()
        with self._changed:
            self._changed.wait_for(lambda: not self._calls, patience)
        for call in left:
            call.tell()

    def end(self, patience: float) -> None:
        """Serve no more connections, close all, and wait at most `patience` seconds for their threads."""
        with self._changed:
            self._ended = True
            calls, threads = list(self._calls), dict(self._open)
        for call in calls:
            call.abort()
        for connection in threads:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        deadline = clock.monotonic() + patience
        for thread in threads.values():
            thread.join(max(0.0, deadline - clock.monotonic()))
        for call in calls:
            call.tell()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._changed:
            if self._ended or len(self._open) >= MOST_CONNECTIONS:
                super().shutdown_request(request)
                return
            arguments = (request, client_address)
            thread = threading.Thread(target=self.process_request_thread, args=arguments, daemon=True)
            self._open[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        with self._changed:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing is printed: what a call used and how it failed has been told."""
