"""Which daemons can be used; the reason why others cannot. The daemon is one of our own, but for its answers."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.sandbox.docker import engine
from pytest_codereval.sandbox.docker.driver import DockerDriver
from pytest_codereval.sandbox.docker.engine import Engine, EngineError
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.task.models import SandboxConfig

pytest.importorskip("docker", reason="the docker SDK is not installed")

VERSION = {"ApiVersion": "1.41", "Version": "20.10"}
INFO = {
    "OSType": "linux",
    "KernelVersion": os.uname().release,
    "MemTotal": 8 << 30,
    "NCPU": 2,
    "MemoryLimit": True,
    "PidsLimit": True,
    "SecurityOptions": ["name=seccomp,profile=default"],
}
Answering = Callable[..., None]


class _Server(socketserver.ThreadingUnixStreamServer):
    answers: dict[str, tuple[int, bytes]]


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        status, body = self.server.answers.get(self.path, (404, b'{"message": "no such thing"}'))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "test"

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """Have a daemon that answers with these versions and facts, or not at all."""
    path = tmp_path / "d"
    engine._found.clear()
    with _Server(str(path), _Handler) as server:
        server.answers = {}
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")

        def answer(version: dict[str, Any] | None = None, **info: Any) -> None:
            engine._found.clear()
            server.answers["/version"] = 200, json.dumps({**VERSION, **(version or {})}).encode()
            server.answers["/info"] = 200, json.dumps({**INFO, **info}).encode()

        yield answer
        server.shutdown()
    engine._found.clear()


def reason(order: Order | None = None) -> str:
    """Why the driver cannot be had; empty when it can."""
    return DockerDriver().availability(order).reason


def order(**config: Any) -> Order:
    return Order(SandboxConfig.model_validate(config))


def test_a_daemon_is_used_when_nothing_speaks_against_it(daemon: Answering) -> None:
    daemon()
    assert reason() == ""
    assert engine.daemon().api_version == "1.41"
    daemon({"ApiVersion": "1.52"})
    assert reason() == ""


def test_daemons_that_keep_no_promise_are_refused(daemon: Answering) -> None:
    assert "no such thing" in reason()
    daemon({"ApiVersion": "1.40"})
    assert "too old: it has API 1.40, needed is 1.41" in reason()
    daemon(SecurityOptions=["name=seccomp,profile=default", "name=rootless"])
    assert "is rootless" in reason()
    daemon(SecurityOptions=["name=userns"])
    assert "maps user ids" in reason()
    daemon(KernelVersion="5.15.0-linuxkit")
    assert "another kernel" in reason()


def test_an_order_is_refused_for_what_it_lacks_or_cannot_have(daemon: Answering) -> None:
    daemon()
    assert "no image is named" in reason(order())
    assert reason(order(docker={"image": "some"})) == ""
    assert "cannot limit cpus" in reason(order(docker={"image": "some"}, limits={"max_cpus": 1}))


def test_only_unix_sockets_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine._found.clear()
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert "its address is tcp://192.0.2.1:2375" in reason()
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none")
    assert f"no Docker daemon answers at {tmp_path}/none" in reason()


def test_the_current_context_names_the_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    engine._found.clear()
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}', encoding="utf-8")
    assert "the docker context 'mine' cannot be read" in reason()
    folder = tmp_path / "contexts" / "meta" / hashlib.sha256(b"mine").hexdigest()
    folder.mkdir(parents=True)
    host = {"Endpoints": {"docker": {"Host": "ssh://elsewhere"}}}
    (folder / "meta.json").write_text(json.dumps(host), encoding="utf-8")
    assert "its address is ssh://elsewhere" in reason()
    (folder / "meta.json").write_text(
        json.dumps(host).replace("ssh://elsewhere", f"unix://{tmp_path}/x"), encoding="utf-8"
    )
    assert f"no Docker daemon answers at {tmp_path}/x" in reason()


def test_a_refused_call_tells_the_status_and_the_message(daemon: Answering) -> None:
    daemon()
    path = os.environ["DOCKER_HOST"].removeprefix("unix://")
    with pytest.raises(EngineError, match="no such thing") as caught:
        Engine(path).call("GET", "/nothing")
    assert caught.value.status == 404
