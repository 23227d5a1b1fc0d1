"""The only way out of a sandbox whose network allows some hosts: each is a loopback address in there, joined here.

Names lead to these addresses by the sandbox's hosts file, so that programs need no proxy, and nothing else has a route.
Names are resolved outside, when a connection is made. What is sent is not looked at; every connection is logged.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import ipaddress
import itertools
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .. import clock
from ..errors import TrialError
from .serving import Acceptor, Listen

MOST_CONNECTIONS = 256
"""Open at once, for all hosts together; more are refused and logged as such."""

MOST_LOGGED = 10_000

CONNECT_TIMEOUT = 30.0
"""Seconds for reaching a host."""

CLOSING = 2.0
"""Seconds that connections get to end when they are broken off."""

_CHUNK = 1 << 18


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


class ConnectionLog(NamedTuple):
    """The first connections, `MOST_LOGGED` at most, in the order in which they were begun, and how many followed."""

    made: tuple[Connection, ...]
    unlogged: int


def addresses(endpoints: Sequence[tuple[str, int]]) -> Mapping[str, str]:
    """The loopback address of each name that the sandbox's hosts file has to hold, also as written with a final dot."""
    hosts = dict.fromkeys(host for host, _ in endpoints)
    names = (host for host in hosts if _own_address(host) is None)
    free = (address for address in _loopback_addresses() if address not in hosts)
    found = {}
    for name, address in zip(names, free, strict=False):
        found[name] = found[f"{name}."] = address
    return found


def _loopback_addresses() -> Iterator[str]:
    return (f"127.0.{high}.{low}" for high, low in itertools.product(range(1, 251), range(1, 251)))


def _own_address(host: str) -> str | None:
    """The loopback address that a host is known by everywhere; None for one that needs an entry in a hosts file."""
    if host == "localhost":
        return "127.0.0.1"
    try:
        return host if ipaddress.IPv4Address(host).is_loopback else None
    except ValueError:
        return None


class Gate:
    """The allowed hosts of one sandbox, and the log of what was connected."""

    def __init__(self, endpoints: Sequence[tuple[str, int]]) -> None:
        known = addresses(endpoints)
        self._places: dict[tuple[str, int], str] = {}
        for host, port in endpoints:
            self._places.setdefault((_own_address(host) or known[host], port), host)
        self._acceptors: list[Acceptor] = []
        self._changed = threading.Condition()
        self._open: set[socket.socket] = set()
        self._under_way = 0
        self._log: list[Connection] = []
        self._unlogged = 0

    @property
    def log(self) -> ConnectionLog:
        """All connections until now."""
        with self._changed:
            return ConnectionLog(tuple(dataclasses.replace(each) for each in self._log), self._unlogged)

    def open(self, listen: Listen) -> None:
        """Let the processes of a new environment out; those of an earlier one no longer. Raises TrialError."""
        self.close()
        for (address, port), host in self._places.items():
            take = functools.partial(self._take, host, port)
            self._acceptors.append(Acceptor(listen(address, port), take))
            if address == "127.0.0.1":
                with contextlib.suppress(TrialError):
                    self._acceptors.append(Acceptor(listen("::1", port), take))

    def close(self) -> None:
        """Let nobody out any more, and break off what is under way. May be called twice."""
        while self._acceptors:
            self._acceptors.pop().close()
        with self._changed:
            left, self._open = self._open, set()
            for each in left:
                _break_off(each)
            self._changed.wait_for(lambda: not self._under_way, CLOSING)

    def _take(self, host: str, port: int, inner: socket.socket) -> None:
        entry = Connection(host, port, clock.now())
        with self._changed:
            if len(self._log) < MOST_LOGGED:
                self._log.append(entry)
            else:
                self._unlogged += 1
            if self._under_way >= MOST_CONNECTIONS:
                entry.error = f"more than {MOST_CONNECTIONS} connections at once"
                entry.ended = clock.now()
                inner.close()
                return
            self._under_way += 1
            self._open.add(inner)
        thread = threading.Thread(target=self._serve, args=(entry, inner), name="codereval-gate", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            entry.error = str(error)
            self._end(entry, inner)

    def _serve(self, entry: Connection, inner: socket.socket) -> None:
        outer: socket.socket | None = None
        try:
            outer = socket.create_connection((entry.host, entry.port), CONNECT_TIMEOUT)
            outer.settimeout(None)
        except (OSError, UnicodeError) as error:
            entry.error = f"cannot be reached: {error}"
        else:
            self._join(entry, inner, outer)
        finally:
            self._end(entry, inner, outer)

    def _join(self, entry: Connection, inner: socket.socket, outer: socket.socket) -> None:
        for each in (inner, outer):
            with contextlib.suppress(OSError):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._changed:
            if inner not in self._open:
                entry.error = "broken off before the host was reached"
                return
            self._open.add(outer)
        arguments = (entry, outer, inner, "received")
        back = threading.Thread(target=self._pump, args=arguments, name="codereval-gate", daemon=True)
        try:
            back.start()
        except RuntimeError as error:
            entry.error = str(error)
            return
        self._pump(entry, inner, outer, "sent")
        back.join()

    def _pump(self, entry: Connection, source: socket.socket, target: socket.socket, count: str) -> None:
        buffer = memoryview(bytearray(_CHUNK))
        try:
            while size := source.recv_into(buffer):
                target.sendall(buffer[:size])
                setattr(entry, count, getattr(entry, count) + size)
            target.shutdown(socket.SHUT_WR)
        except OSError as error:
            entry.error = entry.error or f"broken off: {error.strerror or error}"
            _break_off(source)
            _break_off(target)

    def _end(self, entry: Connection, inner: socket.socket, outer: socket.socket | None = None) -> None:
        entry.ended = clock.now()
        ended = [inner, *([outer] if outer is not None else [])]
        with self._changed:
            self._open.difference_update(ended)
            for each in ended:
                each.close()
            self._under_way -= 1
            self._changed.notify_all()


def _break_off(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
