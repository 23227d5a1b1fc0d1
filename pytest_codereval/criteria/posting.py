"""One request to a judging service: JSON there and back, in bounded time and size, never redirected."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Any

from .. import clock
from ..errors import JudgingError
from ..text import shorten

LARGEST_REPLY = 10_000_000
"""Bytes."""

PAUSES = (1.0, 2.0)
"""Seconds before the second and the third attempt, after a fault that may pass."""

_PASSING = frozenset({408, 409, 425, 429, *range(500, 600)})
_FAULTS = (OSError, http.client.HTTPException)


class _Fault(Exception):
    """An attempt that gave no reply; `passing` tells that another one may."""

    def __init__(self, message: str, passing: bool) -> None:
        super().__init__(message)
        self.passing = passing


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """A redirect would take the key to another host."""


def post_json(url: str, content: object, headers: Mapping[str, str], timeout: float, patience: float = 1.0) -> Any:
    """Post `content` and return what comes back, both as JSON. `timeout` is in seconds, for each of three attempts.

    `patience` multiplies the pauses between them.

    Raises JudgingError when the service cannot be reached, refuses, or answers with something else than JSON.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise JudgingError(f"{url}: expected a URL with http or https")
    request = urllib.request.Request(
        url, json.dumps(content).encode(), {"content-type": "application/json", **headers}, method="POST"
    )
    for pause in (*PAUSES, None):
        try:
            return _parsed(url, _attempt(request, timeout))
        except _Fault as fault:
            if pause is None or not fault.passing:
                raise JudgingError(f"the service at {url} {fault}") from None
            time.sleep(pause * patience)
    raise AssertionError("the last attempt returns or raises")


def _attempt(request: urllib.request.Request, timeout: float) -> bytes:
    deadline = clock.monotonic() + timeout
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout) as reply:
            return _read(reply, deadline)
    except urllib.error.HTTPError as error:
        with error:
            said = shorten(error.read(2000).decode("utf-8", "replace"), 300)
        raise _Fault(f"answered HTTP {error.code}: {said}", error.code in _PASSING) from None
    except TimeoutError:
        raise _Fault(f"did not answer within {timeout:g} s", passing=False) from None
    except _FAULTS as error:
        late = isinstance(getattr(error, "reason", None), TimeoutError)
        message = f"did not answer within {timeout:g} s" if late else f"cannot be reached: {error}"
        raise _Fault(message, passing=not late) from None


def _read(reply: http.client.HTTPResponse, deadline: float) -> bytes:
    data = b""
    while piece := reply.read1(65_536):
        data += piece
        if len(data) > LARGEST_REPLY:
            raise _Fault(f"answered more than {LARGEST_REPLY} bytes", passing=False)
        if clock.monotonic() > deadline:
            raise TimeoutError
    if reply.length:
        raise _Fault("broke off its answer", passing=True)
    return data


def _parsed(url: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        said = shorten(data[:2000].decode("utf-8", "replace"), 300)
        raise JudgingError(f"the service at {url} answered no JSON: {said!r}") from None
