"""Stands between the harness and the Docker daemon, so that it can be slow or die."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from pathlib import Path


class Proxy:
    """Joins a socket at `path` with that of the daemon. Each connection is taken after `delay` seconds."""

    def __init__(self, path: Path, daemon: str, delay: float = 0.0) -> None:
        self.path = path
        self._daemon = daemon
        self._delay = delay
        self._open: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Die: all connections are broken, and none is taken any more."""
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                inner = self._server.accept()[0]
                time.sleep(self._delay)
                outer = socket.socket(socket.AF_UNIX)
                outer.connect(self._daemon)
                self._open += [inner, outer]
                threading.Thread(target=_pump, args=(inner, outer), daemon=True).start()
                threading.Thread(target=_pump, args=(outer, inner), daemon=True).start()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
