"""Servers of the harness that processes in a sandbox reach on the loopback device."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

Take = Callable[[socket.socket], None]
"""Takes a connection over, without waiting for anything."""


class Served(NamedTuple):
    """A port of 127.0.0.1 whose connections are handed over until `close` is called."""

    port: int
    close: Callable[[], None]


Serve = Callable[[Take], Served]

Listen = Callable[[str, int], socket.socket]
"""Makes a listening socket at an address and a port inside a sandbox; any free port for 0."""


_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""What accepting fails with for want of something that comes back."""

_PAUSE = 0.05


class Acceptor:
    """Hands on the connections of a listening socket, which is its own from now on."""

    def __init__(self, listener: socket.socket, take: Take) -> None:
        self._listener = listener
        self._take = take
        self._thread = threading.Thread(target=self._accept, name="codereval-acceptor", daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except ConnectionAbortedError:
                continue
            except OSError as error:
                if error.errno not in _PASSING:
                    return
                time.sleep(_PAUSE)
            else:
                self._take(connection)

    def close(self) -> None:
        """Accept no more. May be called twice."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()


def serve_on_host(take: Take) -> Served:
    """Serve on the loopback device of the harness itself."""
    listener = _listen_on_host("127.0.0.1", 0)
    port: int = listener.getsockname()[1]
    return Served(port, Acceptor(listener, take).close)


class Services:
    """What one sandbox serves its agent, whose environment may come and go meanwhile; in between nobody is served.

    `own_network` tells that the environment has a loopback device of its own; else the harness's is used, where the
    port is kept all the time.
    """

    def __init__(self, own_network: bool) -> None:
        self._own_network = own_network
        self._listen: Listen | None = None
        self._services: list[_Service] = []

    @property
    def ports(self) -> tuple[int, ...]:
        return tuple(service.port for service in self._services if service.port)

    def add(self, take: Take) -> Served:
        """Serve from now on; with a network of its own an environment has to be attached. Raises TrialError."""
        service = _Service(take if self._own_network else self._while_attached(take))
        service.listen(self._listen if self._own_network and self._listen is not None else _listen_on_host)
        self._services.append(service)
        return Served(service.port, service.close)

    def _while_attached(self, take: Take) -> Take:
        def taken(connection: socket.socket) -> None:
            if self._listen is None:
                connection.close()
            else:
                take(connection)

        return taken

    def attach(self, listen: Listen) -> None:
        """Serve the processes of a new environment too. Raises TrialError."""
        self._listen = listen
        if self._own_network:
            for service in self._services:
                service.listen(listen)

    def detach(self) -> None:
        """The environment ends."""
        self._listen = None
        if self._own_network:
            for service in self._services:
                service.pause()

    def close(self) -> None:
        """Serve nobody any more. May be called twice."""
        for service in self._services:
            service.close()


class _Service:
    def __init__(self, take: Take) -> None:
        self._take = take
        self._acceptor: Acceptor | None = None
        self._closed = False
        self.port = 0

    def listen(self, listen: Listen) -> None:
        if self._closed:
            return
        listener = listen("127.0.0.1", self.port)
        self.port = listener.getsockname()[1]
        self._acceptor = Acceptor(listener, self._take)

    def pause(self) -> None:
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None

    def close(self) -> None:
        self._closed = True
        self.pause()


def _listen_on_host(address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), backlog=128)
