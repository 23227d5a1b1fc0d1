"""Services of the fake host that no agent is to reach: they keep what they are sent."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from pathlib import Path


class Services:
    """A TCP and a UDP port of 127.0.0.1, a socket file and an abstract socket, served until `close`."""

    def __init__(self, socket_file: Path, abstract: str) -> None:
        self.seen: list[str] = []
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._file = _listen(str(socket_file))
        self._abstract = _listen(f"\0{abstract}")
        socket_file.chmod(0o666)
        self.tcp_port: int = self._tcp.getsockname()[1]
        self.udp_port: int = self._udp.getsockname()[1]
        self._end, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as ready:
            for each in (self._tcp, self._file, self._abstract, self._udp, self._ended):
                ready.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self._ended:
                        return
                    with contextlib.suppress(OSError):
                        self._take(key.fileobj)  # type: ignore[arg-type]

    def _take(self, service: socket.socket) -> None:
        if service is self._udp:
            self.seen.append(service.recv(1000).decode("utf-8", "replace"))
            return
        connection, _ = service.accept()
        with connection:
            connection.settimeout(2)
            self.seen.append(connection.recv(1000).decode("utf-8", "replace"))
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\nmetadata\n")

    def close(self) -> None:
        self._end.close()
        self._thread.join()
        for each in (self._tcp, self._udp, self._file, self._abstract, self._ended):
            each.close()


def _listen(address: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(address)
    made.listen(16)
    return made
