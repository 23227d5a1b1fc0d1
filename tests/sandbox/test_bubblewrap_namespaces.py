"""Listening sockets in other network namespaces, and control groups."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_codereval.errors import TrialError
from pytest_codereval.sandbox import cgroups
from pytest_codereval.sandbox.namespaces import listen_in
from tests.sandbox.processes import needs_linux, wait_until

pytestmark = needs_linux


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """A process in a network namespace of its own, whose loopback device is down."""
    identity = [] if os.geteuid() == 0 else ["--user"]
    try:
        process = subprocess.Popen(["unshare", *identity, "--net", "sleep", "60"])
    except FileNotFoundError:
        pytest.skip("unshare is not there")
    own = Path("/proc/self/ns/net").readlink()
    try:
        wait_until(lambda: process.poll() is not None or Path(f"/proc/{process.pid}/ns/net").readlink() != own)
        if process.poll() is not None:
            pytest.skip("no network namespaces can be made")
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_a_socket_listens_in_the_other_namespace_only(elsewhere: int) -> None:
    with contextlib.closing(listen_in(elsewhere, "127.0.1.7", 443)) as listener:
        assert listener.getsockname() == ("127.0.1.7", 443)
        code = "import socket; print(socket.create_connection(('127.0.1.7', 443)).recv(9))"
        identity = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        enter = ["nsenter", "--target", str(elsewhere), *identity, "--net", sys.executable, "-I", "-c", code]
        client = subprocess.Popen(enter, stdout=subprocess.PIPE)
        listener.settimeout(20)
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"hello")
        assert client.communicate(timeout=20)[0] == b"b'hello'\n"
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.1.7", 443), timeout=5)


def test_the_harness_stays_in_its_own_namespace(elsewhere: int) -> None:
    before = Path("/proc/self/ns/net").readlink()
    listen_in(elsewhere).close()
    wait_until(lambda: {(task / "ns/net").readlink() for task in Path("/proc/self/task").iterdir()} == {before})


def test_the_own_namespace_will_do(elsewhere: int) -> None:
    with contextlib.closing(listen_in(os.getpid())) as listener:
        socket.create_connection(listener.getsockname()).close()


def test_what_cannot_be_listened_to_is_told(elsewhere: int) -> None:
    with pytest.raises(TrialError, match=r"cannot listen at 192\.0\.2\.1 in the network of the sandbox: .*assign"):
        listen_in(elsewhere, "192.0.2.1")
    with pytest.raises(TrialError, match="No such file"):
        listen_in(2**22 + 1)


def test_a_group_bounds_and_is_removed() -> None:
    group = cgroups.make_group(cgroups.Limits(pids=7))
    if not group.folders:
        assert group.bounded == frozenset()
        pytest.skip("no control groups can be made here")
    assert group.bounded == {"pids"}
    assert (group.folders[0] / "pids.max").read_text().strip() == "7"
    join = "".join(f"echo 0 >{path} && " for path in group.joins)
    many = subprocess.run(["sh", "-c", f"{join} for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done"], capture_output=True)
    assert b"fork" in many.stderr
    wait_until(lambda: group.remove() == ())
    assert not group.folders[0].exists()
    assert group.remove() == ()


def test_groups_of_dead_harnesses_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a directory that looks like the place of version 2, as few machines have both."""
    own = f"codereval-{os.getpid()}-{cgroups._start_of(os.getpid())}-900"
    for name in ("codereval-1-1-1", own, "somebody"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroups, "_parents", lambda limit: iter([tmp_path]))
    assert cgroups.make_group(cgroups.Limits(pids=7)).folders == ()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([own, "somebody"])
