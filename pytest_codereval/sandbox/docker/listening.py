"""Ports of the harness in the network of a container."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
from pathlib import Path
from typing import Any

from ...errors import Cause, TrialError
from ..enclosure import Owner
from ..namespaces import listen_in
from ..supervision import Command
from .containers import Container
from .launch import Launch

START_PATIENCE = 60.0

_ROOT = Owner(0, 0)
_BACKLOG = 128

_FORWARDER = """
import contextlib, socket, sys, threading
address, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
server = socket.create_server((address, port), family=family, backlog=128)
print(server.getsockname()[1], flush=True)
def pump(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 18):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
def join(inner):
    outer = socket.socket(socket.AF_UNIX)
    with inner, outer:
        try:
            outer.connect(path)
        except OSError:
            return
        back = threading.Thread(target=pump, args=(outer, inner), daemon=True)
        back.start()
        pump(inner, outer)
        back.join()
while True:
    threading.Thread(target=join, args=(server.accept()[0],), daemon=True).start()
"""
"""Runs in the container: joins a TCP port there with a socket of the harness that lies in the shared directory."""


class Forwarding:
    """A forwarder that runs in a container."""

    def __init__(self, launch: Launch, path: Path) -> None:
        self._launch = launch
        self._path = path

    def close(self) -> None:
        """Let go of it; it ends with its container."""
        self._launch.close()
        with contextlib.suppress(OSError):
            self._path.unlink()


class _Listener(socket.socket):
    """Is told of connections by a forwarder, and looks as if it listened at the forwarder's address itself."""

    def __init__(self, path: Path) -> None:
        super().__init__(socket.AF_UNIX, socket.SOCK_STREAM)
        self.bind(str(path))
        path.chmod(0o666)
        self.listen(_BACKLOG)
        self.outer = ("127.0.0.1", 0)

    def getsockname(self) -> Any:
        return self.outer

    def accept(self) -> tuple[socket.socket, Any]:
        return super().accept()[0], (self.outer[0], 0)


def listen(
    container: Container, folder: Path, python: str | None, address: str, port: int
) -> tuple[socket.socket, Forwarding | None]:
    """A listening socket in the network of a container, and what it needs to run there, if anything.

    Root makes it from outside. Else a forwarder runs in the container, as its root, whom no other process there can
    touch; that needs Python in the image. Raises TrialError(SANDBOX).
    """
    if os.geteuid() == 0 and container.is_seen:
        return listen_in(container.pid, address, port), None
    if python is None:
        raise TrialError(
            Cause.SANDBOX,
            "the harness cannot serve the processes in the container: only root can do so from outside, and the image "
            "has no python3 for doing so from inside",
        )
    path = folder / secrets.token_hex(4)
    try:
        listener = _Listener(path)
    except OSError as error:
        raise TrialError(Cause.SANDBOX, f"no socket can be made for the container: {error}") from error
    try:
        launch = Launch(container, folder, _command(python, address, port, path), _ROOT)
    except BaseException:
        listener.close()
        raise
    forwarding = Forwarding(launch, path)
    try:
        listener.outer = (address, _port(launch))
    except BaseException:
        listener.close()
        forwarding.close()
        raise
    return listener, forwarding


def _command(python: str, address: str, port: int, path: Path) -> Command:
    argv = [python, "-I", "-S", "-E", "-c", _FORWARDER, address, str(port), str(path)]
    return Command(argv, "/", {"PATH": os.defpath}, timeout=START_PATIENCE, output_limit=0, scoped=True, reap=False)


def _port(launch: Launch) -> int:
    if launch.await_ready(START_PATIENCE):
        launch.hide()
        line = launch.read_line(START_PATIENCE)
        if line.isdigit():
            return int(line)
    raise TrialError(Cause.SANDBOX, f"nothing listens in the network of the container{launch.failure()}")
