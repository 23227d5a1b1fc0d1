"""Notices at once that the program at the other end of a connection has gone."""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable

_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


def hung_up(connection: socket.socket) -> bool:
    """Whether the peer has closed its end."""
    descriptor = connection.fileno()
    if descriptor < 0:
        return True
    poller = select.poll()
    poller.register(descriptor, _GONE)
    return bool(poller.poll(0))


class HangUps:
    """One thread that watches the connections of all calls under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, tuple[socket.socket, Callable[[], None]]] = {}
        self._epoll = select.epoll()
        self._end = os.eventfd(0, os.EFD_CLOEXEC)
        self._epoll.register(self._end, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="codereval-hang-ups", daemon=True)
        self._thread.start()

    def watch(self, connection: socket.socket, gone: Callable[[], None]) -> None:
        """Call `gone` from another thread when the peer closes its end. Must be undone before the socket is closed."""
        with self._lock:
            self._watched[connection.fileno()] = (connection, gone)
            self._epoll.register(connection.fileno(), select.EPOLLRDHUP | select.EPOLLONESHOT)

    def forget(self, connection: socket.socket) -> None:
        with self._lock:
            if self._watched.pop(connection.fileno(), None) is not None and not self._epoll.closed:
                self._epoll.unregister(connection.fileno())

    def close(self) -> None:
        os.eventfd_write(self._end, 1)
        self._thread.join()
        with self._lock:
            self._epoll.close()
            os.close(self._end)

    def _run(self) -> None:
        while True:
            for descriptor, _ in self._epoll.poll():
                if descriptor == self._end:
                    return
                with self._lock:
                    connection, gone = self._watched.get(descriptor, (None, None))
                    if connection is None or gone is None:
                        continue
                    if not hung_up(connection):
                        self._epoll.modify(descriptor, select.EPOLLRDHUP | select.EPOLLONESHOT)
                        continue
                gone()
