"""Containers end with what made them, and what a dead harness left is removed by the next one, and only that."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import registry
from pytest_codereval.sandbox.docker import containers, engine, leftovers
from pytest_codereval.sandbox.docker.turns import turn
from pytest_codereval.sandbox.protocol import Phase
from tests.sandbox.docker.making import create, sh
from tests.sandbox.docker.proxy import Proxy
from tests.sandbox.processes import wait_until

_HANGS = """
import sys
from pytest_codereval.sandbox.protocol import Phase
from tests.sandbox.docker.making import create
sandbox = create(sys.argv[1])
stream = sandbox.stream(["sh", "-c", "echo up; sleep 600"], phase=Phase.AGENT, timeout=600)
print(next(stream).decode(), end="", flush=True)
next(stream)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_containers_end_with_their_harness(base_image: str, docker_client: Any, number: int) -> None:
    root = Path(__file__).parents[3]
    script = [sys.executable, "-c", _HANGS, base_image]
    with subprocess.Popen(script, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as harness:
        assert harness.stdout is not None
        try:
            assert harness.stdout.readline() == "up\n"
            asked = {"label": f"{leftovers.PID}={harness.pid}"}
            assert len(docker_client.containers.list(filters=asked)) == 1
        finally:
            harness.send_signal(number)
    wait_until(lambda: not docker_client.containers.list(all=True, filters=asked, ignore_removed=True))


@pytest.fixture
def place() -> registry.Registry:
    return registry.registry()


@pytest.fixture
def orphan(docker_client: Any, base_image: str, place: registry.Registry) -> Iterator[Any]:
    """Make a container with some labels, one that never runs."""
    made = []

    def make(**changed: str) -> Any:
        given = {**leftovers.labels(place), **{getattr(leftovers, name): value for name, value in changed.items()}}
        made.append(docker_client.containers.create(base_image, ["sh"], labels=given))
        return made[-1]

    yield make
    for each in made:
        with contextlib.suppress(Exception):
            each.remove(force=True)


def test_leftovers_of_the_dead_are_removed_and_nothing_else(
    docker_daemon: engine.Daemon, docker_client: Any, place: registry.Registry, orphan: Any, tmp_path: Path
) -> None:
    held, free = tmp_path / "held.lock", tmp_path / "free.lock"
    with held.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        free.touch()
        dead = [orphan(LOCK=str(tmp_path / "gone.lock")), orphan(LOCK=str(free))]
        kept = [
            orphan(),
            orphan(LOCK=str(held)),
            orphan(LOCK=str(free), HOST="another"),
            orphan(LOCK=str(free), USER="4242"),
            orphan(LOCK=""),
        ]
        leftovers.sweep(docker_daemon, place)

    def there() -> set[str]:
        return {each.name for each in docker_client.containers.list(all=True, ignore_removed=True)}

    wait_until(lambda: not there() & {each.name for each in dead})  # another worker may be the one that sweeps
    names = there()
    assert {each.name for each in kept} <= names


def test_only_so_many_have_a_turn_at_once(place: registry.Registry) -> None:
    inside, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(2, timeout=60)

    def take() -> None:
        nonlocal inside, most
        for _ in range(5):
            with turn(place, at_once=2):
                with lock:
                    inside += 1
                    most = max(most, inside)
                with contextlib.suppress(threading.BrokenBarrierError):
                    together.wait(0.3)
                together.reset()
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 2


def test_a_daemon_that_dies_is_an_error_with_the_reason(
    base_image: str, docker_daemon: engine.Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "LOST_PATIENCE", 0.1)
    with Proxy(tmp_path / "d.sock", docker_daemon.socket) as proxy:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{proxy.path}")
        sandbox = create(base_image)
        stream = sandbox.stream(["sh", "-c", "echo up; sleep 60"], phase=Phase.AGENT, timeout=60)
        assert next(stream) == b"up\n"
        proxy.close()
        with pytest.raises(TrialError, match="does not say why") as caught:
            list(stream)
        assert caught.value.cause is Cause.SANDBOX
        with pytest.raises(TrialError, match="cannot be removed"):
            sandbox.close()


def test_a_slow_daemon_removes_too(
    base_image: str, docker_daemon: engine.Daemon, docker_client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(tmp_path / "d.sock", docker_daemon.socket, delay=0.1) as proxy:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{proxy.path}")
        sandbox = create(base_image)
        assert sh(sandbox, "echo x").stdout == b"x\n"
        sandbox.close()
    asked = {"label": [f"{leftovers.PID}={os.getpid()}", f"{leftovers.SESSION}=test"]}
    assert docker_client.containers.list(all=True, filters=asked, ignore_removed=True) == []
