"""Messages with file descriptors between the harness, its supervisor and the keepers."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any


class Channel:
    """Messages with file descriptors over a stream socket. Raises OSError when the other side is gone."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._buffer = b""
        self._descriptors: list[int] = []

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, message: Mapping[str, object], descriptors: Sequence[int] = ()) -> None:
        body = json.dumps(message).encode("ascii")
        data = struct.pack("!I", len(body)) + body
        sent = socket.send_fds(self.socket, [data], list(descriptors)) if descriptors else self.socket.send(data)
        if sent < len(data):
            self.socket.sendall(data[sent:])

    def receive(self) -> dict[str, Any] | None:
        """The next message, or None when the other side is gone."""
        while not self.pending():
            try:
                data, descriptors, _, _ = socket.recv_fds(self.socket, 1 << 18, 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._buffer += data
            self._descriptors += descriptors
        end = 4 + struct.unpack_from("!I", self._buffer)[0]
        body, self._buffer = self._buffer[4:end], self._buffer[end:]
        message: dict[str, Any] = json.loads(body)
        return message

    def pending(self) -> bool:
        """Whether `receive` would answer from what was read already."""
        return len(self._buffer) >= 4 and len(self._buffer) >= 4 + struct.unpack_from("!I", self._buffer)[0]

    def take_descriptors(self, count: int) -> list[int]:
        taken, self._descriptors = self._descriptors[:count], self._descriptors[count:]
        return taken

    def close(self) -> None:
        self.socket.close()
