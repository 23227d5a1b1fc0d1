"""Keeps the real key from the program, should a server ever send it back."""

from __future__ import annotations

SHORTEST = 16
"""Characters of a key that can be told from ordinary text. Servers at home take words like `none` or `lm-studio`.

More than `redaction.SHORTEST`: there a word too many is hidden from a reader only, here it would change the reply that
the agent works with.
"""


class KeyFilter:
    """Blanks out one key in a stream of bytes, of whatever pieces. Lengths stay the same, and so does all else.

    No more is held back than an end of a piece with which the key begins.
    """

    def __init__(self, key: str) -> None:
        self._key = key.encode() if len(key) >= SHORTEST else b""
        self._blank = b"*" * len(self._key)
        self._held = b""

    def whole(self, text: bytes) -> bytes:
        return text.replace(self._key, self._blank) if self._key else text

    def feed(self, piece: bytes) -> bytes:
        data = self.whole(self._held + piece)
        held = self._overlap(data)
        self._held = data[len(data) - held :]
        return data[: len(data) - held]

    def finish(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def _overlap(self, data: bytes) -> int:
        for size in range(min(len(self._key) - 1, len(data)), 0, -1):
            if data.endswith(self._key[:size]):
                return size
        return 0
