"""Networks that allow some hosts, and what the harness serves, as programs in isolated sandboxes find them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_codereval.sandbox.protocol import Phase, Sandbox
from pytest_codereval.sandbox.serving import serve_on_host

from .isolated import create

KINDS = ("bubblewrap", "docker")
LARGE = 8 << 20
PARALLEL = 60

PROBE = """
import json, os, socket, sys, threading
os.environ["RES_OPTIONS"] = "timeout:30 attempts:5"  # who is not refused at once waits longer than this may run
local, closed, served, large, parallel = map(int, sys.argv[1:])

def said(host, port, kind=socket.SOCK_STREAM):
    try:
        with socket.create_connection((host, port), 5) as sock:
            return sock.recv(100).decode()
    except OSError as error:
        return type(error).__name__

def answer(action):
    try:
        return str(action())
    except OSError as error:
        return type(error).__name__

def datagram(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        return sock.sendto(b"x", address)

def packets(family, number):
    with socket.socket(family, socket.SOCK_RAW, number):
        return "open"

def both_ways():
    data = os.urandom(1 << 16) * (large >> 16)
    with socket.create_connection(("a.example", 443), 20) as sock:
        sock.recv(100)
        sender = threading.Thread(target=lambda: (sock.sendall(data), sock.shutdown(socket.SHUT_WR)))
        sender.start()
        back = b"".join(iter(lambda: sock.recv(1 << 18), b""))
        sender.join()
    return back == data

def at_once():
    socks = [socket.create_connection(("b.example", 443), 20) for _ in range(parallel)]
    said = {sock.recv(100) for sock in socks}
    for sock in socks:
        sock.close()
    return sorted(map(bytes.decode, said))

print(json.dumps({
    "reached": [said(host, 443) for host in ("a.example", "A.Example", "a.example.", "b.example")],
    "localhost": [said(host, local) for host in ("localhost", "127.0.0.1")],
    "served": said("127.0.0.1", served),
    "other ports": [said("a.example", 80), said("b.example", 8443), said("127.0.0.1", closed), said("localhost", 443)],
    "elsewhere": [answer(lambda host=host: socket.create_connection((host, 80), 20))
                  for host in ("169.254.169.254", "192.0.2.1", "172.17.0.1")],
    "names": [answer(lambda name=name: socket.gethostbyname(name)) for name in ("c.example", "pypi.org")],
    "datagrams": [answer(lambda: datagram(("192.0.2.1", 53)))],
    "raw": [answer(lambda: packets(socket.AF_INET, 1)), answer(lambda: packets(socket.AF_PACKET, 768))],
    "both ways": both_ways(),
    "at once": at_once(),
}))
"""

ASK = """
import json, socket, sys
def said(host, port):
    try:
        with socket.create_connection((host, int(port)), 2) as sock:
            return sock.recv(100).decode()
    except OSError as error:
        return type(error).__name__
print(json.dumps([said(*place.rsplit(":", 1)) for place in sys.argv[1:]]))
"""


@contextlib.contextmanager
def greeting(name: str) -> Iterator[int]:
    """A server that greets by its name and sends back what it gets."""

    def talk(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.sendall(name.encode())
            while data := connection.recv(1 << 18):
                connection.sendall(data)

    served = serve_on_host(lambda sock: threading.Thread(target=talk, args=(sock,), daemon=True).start())
    yield served.port
    served.close()


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Servers of this machine: two play hosts outside, one is allowed as localhost, one is not allowed."""
    with contextlib.ExitStack() as stack:
        found = {name: stack.enter_context(greeting(name)) for name in ("a", "b", "local", "closed", "served")}
        connect = socket.create_connection

        def elsewhere(address: tuple[str, int], *arguments: Any, **options: Any) -> socket.socket:
            host, port = address
            played = {("a.example", 443): "a", ("b.example", 443): "b"}.get((host, port))
            return connect(("127.0.0.1", found[played]) if played else address, *arguments, **options)

        monkeypatch.setattr(socket, "create_connection", elsewhere)
        yield found


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def python(sandbox: Sandbox, text: str, *arguments: object, phase: Phase = Phase.AGENT) -> Any:
    done = sandbox.run(["python3", "-c", text, *map(str, arguments)], phase=phase, timeout=60)
    assert done.exit_status == 0, done.stderr_text
    return json.loads(done.stdout)


def test_allowed_hosts_and_nothing_else(kind: str, ports: dict[str, int]) -> None:
    allow = ["A.example.:443", "b.example:443", "a.example:443", f"localhost:{ports['local']}"]
    sandbox = create(kind, network={"allow": allow})
    with contextlib.closing(sandbox):
        served = sandbox.serve(lambda sock: (sock.sendall(b"served"), sock.close())[0])
        told = python(sandbox, PROBE, ports["local"], ports["closed"], served.port, LARGE, PARALLEL)
        assert told["reached"] == ["a", "a", "a", "b"]
        assert told["localhost"] == ["local"] * 2
        assert told["served"] == "served"
        assert set(told["other ports"]) <= {"ConnectionRefusedError", "OSError"}
        assert set(told["elsewhere"]) <= {"OSError", "gaierror"}, "refused at once, which is no TimeoutError"
        assert told["names"] == ["gaierror"] * 2
        assert told["datagrams"] == ["OSError"]
        assert set(told["raw"]) == {"PermissionError"}
        assert told["both ways"] is True
        assert told["at once"] == ["b"]
        sandbox.reap()
        log = sandbox.connections
        assert log is not None
        assert log.unlogged == 0
        assert [entry.host for entry in log.made].count("b.example") == PARALLEL + 1
        assert {(entry.host, entry.port) for entry in log.made} == {
            ("a.example", 443),
            ("b.example", 443),
            ("localhost", ports["local"]),
        }
        assert (LARGE, LARGE + 1, "") in [(entry.sent, entry.received, entry.error) for entry in log.made]
        assert all(entry.ended and entry.ended >= entry.begun for entry in log.made)
        check_that_graders_reach_nothing(sandbox, served.port, ports)
        assert sandbox.connections == log


def check_that_graders_reach_nothing(sandbox: Sandbox, served: int, ports: dict[str, int]) -> None:
    sandbox.begin_grading()
    places = ["a.example:443", f"127.0.0.1:{served}", f"localhost:{ports['local']}", f"127.0.0.1:{ports['closed']}"]
    for phase in (Phase.GRADE, Phase.RUN):
        assert set(python(sandbox, ASK, *places, phase=phase)) <= {"ConnectionRefusedError", "OSError"}


def test_what_is_served_is_reached_by_its_own_sandbox_only(kind: str) -> None:
    with contextlib.closing(create(kind)) as own, contextlib.closing(create(kind)) as other:
        served = own.serve(lambda sock: (sock.sendall(b"served"), sock.close())[0])
        place = f"127.0.0.1:{served.port}"
        for _ in range(2):
            assert python(own, ASK, place) == ["served"]
            own.reap()
        assert python(other, ASK, place) == ["ConnectionRefusedError"]
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", served.port), 2)
