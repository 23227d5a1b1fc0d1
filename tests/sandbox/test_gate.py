"""The gate of a sandbox whose network allows some hosts, and what the harness serves its agents."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pytest_codereval.sandbox.gate import Gate, addresses
from pytest_codereval.sandbox.serving import Acceptor, Services, serve_on_host

DEADLINE = 60.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.005)


@contextlib.contextmanager
def echo() -> Iterator[int]:
    """A server that sends back what it gets, in capitals."""

    def talk(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data.upper())

    def take(connection: socket.socket) -> None:
        threading.Thread(target=talk, args=(connection,), daemon=True).start()

    served = serve_on_host(take)
    yield served.port
    served.close()


class Inside:
    """Stands for a network namespace: remembers where each of its addresses is really listened at."""

    def __init__(self) -> None:
        self.real: dict[tuple[str, int], int] = {}

    def listen(self, address: str, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        self.real[address, port] = listener.getsockname()[1]
        return listener

    def connect(self, address: str, port: int) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.real[address, port]), DEADLINE)


def test_each_host_has_an_address_of_its_own_and_loopback_names_keep_theirs() -> None:
    named = [("a.example", 443), ("b.example", 443), ("a.example", 80)]
    found = addresses([*named, ("localhost", 8080), ("127.0.1.1", 8080)])
    assert set(found) == {"a.example", "a.example.", "b.example", "b.example."}
    assert found["a.example"] == found["a.example."]
    assert len(set(found.values())) == 2
    assert all(address.startswith("127.0.") for address in found.values())
    assert {"127.0.0.1", "127.0.1.1"}.isdisjoint(found.values())
    many = addresses([(f"h{number}.example", 1) for number in range(600)])
    assert len(set(many.values())) == 600


def test_hosts_that_are_known_by_an_address_of_their_own_are_listened_for_once_and_there() -> None:
    inside = Inside()
    gate = Gate([("localhost", 80), ("127.0.0.1", 80), ("127.0.0.1", 80), ("127.9.9.9", 80), ("a.example", 80)])
    gate.open(inside.listen)
    gate.close()
    assert set(inside.real) == {("127.0.0.1", 80), ("::1", 80), ("127.9.9.9", 80), ("127.0.1.1", 80)}


def test_what_passes_is_logged_in_both_directions() -> None:
    inside = Inside()
    with echo() as port:
        gate = Gate([("localhost", port)])
        gate.open(inside.listen)
        with inside.connect("127.0.0.1", port) as connection:
            connection.sendall(b"hello")
            assert connection.recv(100) == b"HELLO"
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(100) == b""
        until(lambda: gate.log.made[0].ended)
        (entry,) = gate.log.made
        assert (entry.host, entry.port, entry.sent, entry.received, entry.error) == ("localhost", port, 5, 5, "")
        gate.close()


def test_a_host_that_cannot_be_reached_is_told_and_the_connection_ends() -> None:
    inside = Inside()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    gate = Gate([("127.0.0.1", port)])
    gate.open(inside.listen)
    with inside.connect("127.0.0.1", port) as connection:
        assert connection.recv(1) == b""
    until(lambda: gate.log.made and gate.log.made[0].ended)
    assert "cannot be reached" in gate.log.made[0].error
    gate.close()


def test_closing_breaks_off_what_is_under_way_and_opening_again_serves_the_next() -> None:
    inside = Inside()
    threads = threading.active_count()
    with echo() as port:
        gate = Gate([("127.0.0.1", port)])
        gate.open(inside.listen)
        connection = inside.connect("127.0.0.1", port)
        connection.sendall(b"x")
        assert connection.recv(1) == b"X"
        gate.close()
        assert connection.recv(1) == b""
        connection.close()
        with pytest.raises(OSError):
            inside.connect("127.0.0.1", port)
        gate.open(inside.listen)
        with inside.connect("127.0.0.1", port) as again:
            again.sendall(b"y")
            assert again.recv(1) == b"Y"
        gate.close()
        gate.close()
        assert len(gate.log.made) == 2
    until(lambda: threading.active_count() <= threads)


def test_a_service_keeps_its_port_in_the_next_environment() -> None:
    asked: list[int] = []

    def listen(address: str, port: int) -> socket.socket:
        asked.append(port)
        return socket.create_server((address, port))

    taken: list[socket.socket] = []
    services = Services(own_network=True)
    services.attach(listen)
    served = services.add(taken.append)
    services.detach()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", served.port))
    services.attach(listen)
    with socket.create_connection(("127.0.0.1", served.port)):
        until(lambda: taken)
    services.close()
    assert asked == [0, served.port]
    for connection in taken:
        connection.close()


def test_a_service_on_the_hosts_network_keeps_its_port_and_serves_nobody_between_environments() -> None:
    taken: list[socket.socket] = []

    def unused(address: str, port: int) -> socket.socket:
        raise AssertionError("the host's own loopback is used")

    services = Services(own_network=False)
    served = services.add(taken.append)
    assert services.ports == (served.port,)
    for attached in (False, True, False):
        (services.attach(unused) if attached else services.detach())
        with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as connection:
            if attached:
                until(lambda: taken)
            else:
                assert connection.recv(1) == b""
    assert len(taken) == 1
    served.close()
    services.close()
    taken[0].close()


def test_an_acceptor_ends_when_it_is_closed() -> None:
    acceptor = Acceptor(socket.create_server(("127.0.0.1", 0)), lambda connection: connection.close())
    acceptor.close()
    acceptor.close()
