"""The only way out of a sandbox whose network allows some hosts: each is a loopback address in there, joined here.

Names lead to these addresses by the sandbox's hosts file, so that programs need no proxy, and nothing else has a route.
What is sent is not looked at; every connection is logged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import socket
import threading
from collections.abc import Mapping, Sequence

from .. import clock
from .serving import Acceptor, Listen

MOST_CONNECTIONS = 256
"""Open at once, for all hosts together; more are refused and logged as such."""

MOST_LOGGED = 10_000

CONNECT_TIMEOUT = 30.0
"""Seconds for reaching a host."""

_CHUNK = 1 << 16


@dataclasses.dataclass
class Connection:
    """One connection out of a sandbox. Times are in seconds since the epoch; `sent` and `received` in bytes, as the
    sandbox sees it; `error` says why it was refused or broken off, "" otherwise.
    """

    host: str
    port: int
    begun: float
    ended: float | None = None
    sent: int = 0
    received: int = 0
    error: str = ""


def addresses(endpoints: Sequence[tuple[str, int]]) -> Mapping[str, str]:
    """The loopback address by which each host is known in the sandbox, for its hosts file."""
    hosts = dict.fromkeys(host for host, _ in endpoints)
    names = [host for host in hosts if not _is_loopback(host)]
    return {host: f"127.0.{1 + number // 250}.{1 + number % 250}" for number, host in enumerate(names)}


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.startswith("127.")


class Gate:
    """The allowed hosts of one sandbox, and the log of what was connected."""

    def __init__(self, endpoints: Sequence[tuple[str, int]]) -> None:
        self._endpoints = tuple(endpoints)
        self._addresses = addresses(endpoints)
        self._acceptors: list[Acceptor] = []
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._log: list[Connection] = []
        self.unlogged = 0

    @property
    def connections(self) -> tuple[Connection, ...]:
        """All connections until now, in the order in which they were begun."""
        with self._lock:
            return tuple(dataclasses.replace(each) for each in self._log)

    def open(self, listen: Listen) -> None:
        """Let the processes of a new environment out; those of an earlier one no longer. Raises TrialError."""
        self.close()
        for host, port in self._endpoints:
            listener = listen(self._addresses.get(host, "127.0.0.1"), port)
            self._acceptors.append(Acceptor(listener, functools.partial(self._take, host, port)))

    def close(self) -> None:
        """Let nobody out any more, and break off what is under way. May be called twice."""
        while self._acceptors:
            self._acceptors.pop().close()
        with self._lock:
            left = list(self._open)
        for each in left:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _take(self, host: str, port: int, inner: socket.socket) -> None:
        entry = Connection(host, port, clock.now())
        with self._lock:
            if len(self._log) < MOST_LOGGED:
                self._log.append(entry)
            else:
                self.unlogged += 1
            full = len(self._open) >= 2 * MOST_CONNECTIONS
            if not full:
                self._open.add(inner)
        if full:
            entry.error = f"more than {MOST_CONNECTIONS} connections at once"
            inner.close()
            return
        threading.Thread(target=self._join, args=(entry, inner), name="codereval-gate", daemon=True).start()

    def _join(self, entry: Connection, inner: socket.socket) -> None:
        try:
            outer = socket.create_connection((entry.host, entry.port), CONNECT_TIMEOUT)
        except OSError as error:
            entry.error = f"cannot be reached: {error}"
            self._end(entry, inner)
            return
        outer.settimeout(None)
        with self._lock:
            self._open.add(outer)
        back = threading.Thread(target=self._pump, args=(entry, outer, inner, "received"), daemon=True)
        back.start()
        self._pump(entry, inner, outer, "sent")
        back.join()
        self._end(entry, inner, outer)

    def _pump(self, entry: Connection, source: socket.socket, target: socket.socket, count: str) -> None:
        try:
            while data := source.recv(_CHUNK):
                setattr(entry, count, getattr(entry, count) + len(data))
                target.sendall(data)
        except OSError as error:
            entry.error = entry.error or f"broken off: {error.strerror or error}"
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _end(self, entry: Connection, *sockets: socket.socket) -> None:
        entry.ended = clock.now()
        for each in sockets:
            each.close()
        with self._lock:
            self._open.difference_update(sockets)
