"""Secrets by value: what is never written, printed or reported."""

from __future__ import annotations

import base64
import json
import os
import re
import threading
import urllib.parse
from collections.abc import Iterator, Mapping

SHORTEST = 8
"""Shorter values are not taken for secrets, since they would blank out ordinary text."""

SHOWN = "[secret]"

_LONG_LINE = 32
"""A secret of several lines, such as a private key, is also hidden line by line from this length on."""

_SECRET_NAME = re.compile(r"(?:KEY|TOKEN)S?(?:_?\d+)?$|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
_OTHER_NAME = re.compile(r"_(?:ID|NAME|FILE|PATH|DIR|URL|URI|HOST|PORT|USER|TYPE)$", re.IGNORECASE)
_ORDINARY = frozenset("anonymous changeme default disabled enabled localhost password postgres undefined".split())

_guard = threading.Lock()
_secrets: frozenset[str] = frozenset()
_texts: tuple[str, ...] = ()
_data: tuple[bytes, ...] = ()


def hide(*values: str | None) -> None:
    """Take these values for secrets from now on, in this process, and also what they look like when written in JSON,
    a URL, HTML or Base64 (as in Basic authentication, whatever the user's name)."""
    global _secrets, _texts, _data
    new = {value.strip() for value in values if value and len(value.strip()) >= SHORTEST}
    with _guard:
        if new <= _secrets:
            return
        _secrets |= new
        forms = {form for secret in _secrets for form in _forms(secret) if len(form) >= SHORTEST}
        _texts = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        _data = tuple(map(_encoded, _texts))


def hide_secrets_of(environ: Mapping[str, str]) -> None:
    """Hide the values of the variables whose names are those of secrets: keys, tokens, passwords, credentials.

    Left alone are values that cannot be told from ordinary text: short ones, numbers, placeholders and paths of files.
    """
    hide(*(value for name, value in environ.items() if _is_secret_name(name) and not _is_ordinary(value.strip())))


def redact(text: str) -> str:
    """Return `text` with every secret replaced, the longer ones first."""
    present = [form for form in _texts if form in text]
    return re.sub("|".join(map(re.escape, present)), SHOWN, text) if present else text


def redact_bytes(data: bytes) -> bytes:
    """As `redact`, for bytes."""
    present = [form for form in _data if form in data]
    return re.sub(b"|".join(map(re.escape, present)), SHOWN.encode(), data) if present else data


class SecretFinder:
    """Tells whether a text that comes in pieces holds a secret, also one that is torn apart."""

    def __init__(self) -> None:
        self.found = False
        self._end = b""
        self._overlap = max(map(len, _data), default=1) - 1

    def feed(self, piece: bytes) -> None:
        if self.found or not _data:
            return
        seen = self._end + piece
        self.found = any(form in seen for form in _data)
        self._end = seen[-self._overlap :] if self._overlap else b""


def _is_secret_name(name: str) -> bool:
    return bool(_SECRET_NAME.search(name)) and not _OTHER_NAME.search(name)


def _is_ordinary(value: str) -> bool:
    if value.lower() in _ORDINARY or len(set(value)) < 4 or re.fullmatch(r"[\d.,:+-]*", value):
        return True
    return "/" in value and os.path.exists(value)  # noqa: PTH110 - never raises, whatever the value


def _forms(secret: str) -> Iterator[str]:
    yield secret
    for line in secret.splitlines():
        if len(line) >= _LONG_LINE and not any(map(str.isspace, line)):
            yield line
    for ascii_only in (True, False):
        escaped = json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
    data = _encoded(secret)
    for safe in ("", "/"):
        quoted = urllib.parse.quote(data, safe=safe)
        yield quoted
        yield quoted.replace("%20", "+")
        yield re.sub("%[0-9A-F]{2}", lambda match: match.group().lower(), quoted)
    marked_up = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield marked_up
    yield marked_up.replace('"', "&quot;")
    for before in range(3):
        inner = _base64_of(data, before)
        yield inner
        yield inner.translate(str.maketrans("+/", "-_"))


def _encoded(text: str) -> bytes:
    """Its bytes, those that were read from the environment as they were there."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _base64_of(data: bytes, before: int) -> str:
    """The signs of Base64 that depend on `data` alone when `before` other bytes stand in front of it."""
    signs = base64.b64encode(bytes(before) + data).decode("ascii")
    return signs[(0, 2, 3)[before] : (before + len(data)) * 8 // 6]
