"""Canaries: tokens that stand in grading material and nowhere else, and how they are found in data, also encoded."""

from __future__ import annotations

import base64
import dataclasses
import re
import secrets
from collections.abc import Iterable, Iterator

PREFIX = "codereval-canary-"

HOW_TO_USE = (
    "Put it into a comment of the task file and of each grader, reference and dataset, never into a prompt, a template "
    "or an answer of a recorded tool: a trial in whose evidence it turns up is reported as tainted."
)

_OWN = re.compile(rb"codereval-canary-[0-9a-f]{32}(?![0-9a-f])")
_GUID = re.compile(
    rb"canary\s+guid[\s:=]+([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?![0-9a-f-])", re.IGNORECASE
)
_LONGEST_MARK = 200
"""Bytes that a canary with the words in front of it takes at most."""

_BLANKS = b" \t\r\n\x0b\x0c\0"
"""Left out before encoded tokens are looked for: Base64 is broken into lines, UTF-16 is ASCII with NUL bytes."""


def fresh_canary() -> str:
    """A canary that nobody has: `codereval-canary-` and 32 hexadecimal digits."""
    return PREFIX + secrets.token_hex(16)


def shown(token: str) -> str:
    """The beginning of a token, for people: enough to find it in a file, too little to plant it."""
    return f"{token[: len(PREFIX) + 4 if token.startswith(PREFIX) else 8]}..."


def is_own(token: str) -> bool:
    """Whether the token is of the form that only this package makes."""
    return token.startswith(PREFIX)


class CanaryReader:
    """Collects the canaries of a file that comes in pieces: those of `fresh_canary`, and `canary GUID <uuid>`."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._end = b""

    def feed(self, piece: bytes) -> None:
        """Take the next piece; what reaches its end may go on in the next."""
        self._look(data := self._end + piece, len(data))
        self._end = data[-_LONGEST_MARK:]

    def finish(self) -> frozenset[str]:
        """All that was found. No piece follows."""
        self._look(self._end, len(self._end) + 1)
        return frozenset(self.found)

    def _look(self, data: bytes, end: int) -> None:
        if PREFIX.encode() in data:
            self.found |= {match.group().decode() for match in _OWN.finditer(data) if match.end() < end}
        if b"anary" in data or b"ANARY" in data:
            self.found |= {match[1].decode().lower() for match in _GUID.finditer(data) if match.end() < end}


@dataclasses.dataclass(frozen=True)
class Forms:
    """What a text looks like: `folded` are to be looked for in data in lower case, `exact` in data as it is."""

    folded: frozenset[bytes]
    exact: frozenset[bytes]

    def are_in(self, data: bytes, lower: bytes) -> bool:
        return any(form in lower for form in self.folded) or any(form in data for form in self.exact)


def forms(token: str) -> Forms:
    """A token of ASCII as it is, reversed and in hexadecimal digits, in whatever case; and in Base64."""
    data = token.encode("ascii")
    lower = data.lower()
    return Forms(
        frozenset({lower, lower[::-1], data.hex().encode(), data.upper().hex().encode()}), frozenset(_in_base64(data))
    )


def _in_base64(data: bytes) -> Iterator[bytes]:
    """The signs that depend on `data` alone, for each number of bytes (modulo 3) that may stand in front of it."""
    for before in range(3):
        signs = base64.b64encode(bytes(before) + data)
        yield signs[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]


class TokenFinder:
    """Looks for tokens, plain or encoded, in data that comes in pieces. `found` holds those that were there."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self.found: set[str] = set()
        all_forms = {token: forms(token) for token in tokens}
        self._own = {token: each for token, each in all_forms.items() if is_own(token)}
        self._others = {token: each for token, each in all_forms.items() if not is_own(token)}
        self._any_own = forms(PREFIX)
        lengths = [len(form) for each in all_forms.values() for form in (*each.folded, *each.exact)]
        self._overlap = max(lengths, default=1) - 1
        self._end = b""

    def restart(self) -> None:
        """What comes next does not follow what came before; nothing has been found in it."""
        self.found = set()
        self._end = b""

    def feed(self, piece: bytes) -> None:
        """Take the next piece of the data."""
        if not self._own and not self._others:
            return
        data = self._end + piece.translate(None, _BLANKS)
        self._end = data[-self._overlap :]
        lower = data.lower()
        self.found |= {token for token, each in self._others.items() if each.are_in(data, lower)}
        if self._own and self._any_own.are_in(data, lower):
            self.found |= {token for token, each in self._own.items() if each.are_in(data, lower)}
