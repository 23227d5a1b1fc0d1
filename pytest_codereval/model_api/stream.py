"""One request to a model's API, sent by a thread, so that no wait for it can outlast a deadline or an interrupt."""

from __future__ import annotations

import contextlib
import functools
import json
import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .. import clock
from ..errors import Cause
from .credentials import Credentials
from .faults import fault_of_response
from .sse import EventSplitter

if TYPE_CHECKING:
    import ssl

    import anthropic
    import httpx2

SILENCE = 300.0
"""Seconds without a byte after which a connection counts as lost."""

LONGEST_REPLY = 64_000_000
"""Bytes of a reply; one that is longer makes no sense."""

LONGEST_ERROR = 100_000
"""Bytes that are read of a reply that reports an error."""

_CONNECT = 30.0
_AFTER_THE_LAST_EVENT = 0.2
"""Seconds to wait for the end of a reply whose last event is there; then its connection is not used again."""

_HEADERS = frozenset(
    "accept accept-encoding anthropic-version connection content-length content-type host transfer-encoding "
    "user-agent".split()
)
"""All that is sent beside what carries the key; the SDK would add those of ANTHROPIC_CUSTOM_HEADERS."""


class Fault(Exception):
    """A try that gave no reply. `asked` tells that the request may have been worked on, so that it may have cost."""

    def __init__(
        self,
        cause: Cause,
        message: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        asked: bool = False,
    ) -> None:
        super().__init__(message)
        self.cause = cause
        self.status = status
        self.retry_after = retry_after
        self.asked = asked


class DeadlineError(Exception):
    """The deadline came before the end of the reply."""


class Connection:
    """A client of the API and its open sockets. Used by one request at a time; the thread that uses it closes it."""

    path = "/v1/messages"
    streams = True
    """Whether the reply is asked for as a stream of events."""

    def __init__(self, credentials: Credentials) -> None:
        """Raises Fault for a base URL that cannot be used."""
        import anthropic

        self._credentials = credentials
        self._sockets: list[Any] = []
        self._interrupted = False
        client = anthropic.DefaultHttpxClient(
            verify=trusted_certificates(),
            follow_redirects=False,
            event_hooks={"request": [self._prepare], "response": [_bound]},
        )
        try:
            self._client = self._client_over(client)
        except Exception as error:
            client.close()
            raise _as_fault(error) from None

    def _client_over(self, client: httpx2.Client) -> anthropic.Anthropic | anthropic.AnthropicBedrock:
        import anthropic

        return anthropic.Anthropic(
            api_key=self._credentials.key,
            base_url=self._credentials.base_url,
            max_retries=0,
            open_telemetry=False,
            http_client=client,
        )

    def post(self, request: Mapping[str, Any], timeout: float) -> httpx2.Response:
        """Send `request` and return the open reply; `timeout` (seconds) holds for each single wait."""
        import anthropic
        import httpx2

        stream: anthropic.Stream[object] = self._client.post(
            self.path,
            cast_to=object,
            body={**request, "stream": True} if self.streams else dict(request),
            options={"timeout": httpx2.Timeout(timeout, connect=min(timeout, _CONNECT))},
            stream=True,
            stream_cls=anthropic.Stream[object],
        )
        return stream.response

    def _prepare(self, request: httpx2.Request) -> None:
        for name in list(request.headers):
            if name.lower() not in _HEADERS:
                del request.headers[name]
        request.headers.update(self._credentials.headers)
        request.extensions = {**request.extensions, "trace": self._trace}

    def _trace(self, event: str, details: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            self._sockets.append(details["return_value"].get_extra_info("socket"))
            if self._interrupted:
                self.interrupt()

    def interrupt(self) -> None:
        """End every wait for the other side, now and later. May be called from another thread."""
        self._interrupted = True
        for each in self._sockets:
            with contextlib.suppress(OSError, AttributeError):
                socket.socket.shutdown(each, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all sockets."""
        self._client.close()


class Exchange:
    """One try. Its thread ends with the reply, or soon after `abandon`."""

    def __init__(self, connection: Connection, request: Mapping[str, Any], deadline: float) -> None:
        self._connection = connection
        self._request = request
        self._deadline = deadline
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._abandoned = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._work, name="codereval-model-call", daemon=True)

    def events(self) -> Iterator[Mapping[str, Any]]:
        """The events of the reply as they come. Raises Fault and DeadlineError."""
        self._thread.start()
        while (item := self._next(self._deadline)) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _next(self, deadline: float) -> Any:
        try:
            item = self._queue.get(timeout=min(max(deadline - clock.monotonic(), 0), threading.TIMEOUT_MAX))
        except queue.Empty:
            raise DeadlineError from None
        self._ended = item is None or isinstance(item, BaseException)
        return item

    def finish(self) -> bool:
        """Let the reply come to its end when its last event is there; whether the connection can be used again."""
        limit = min(self._deadline, clock.monotonic() + _AFTER_THE_LAST_EVENT)
        with contextlib.suppress(DeadlineError):
            while not self._ended:
                self._next(limit)
            self._thread.join(_AFTER_THE_LAST_EVENT)
            return not self._thread.is_alive()
        return False

    def abandon(self) -> None:
        """Give the connection up. A thread that does not notice at once is left behind and closes it later."""
        self._abandoned.set()
        self._connection.interrupt()
        self._thread.join(_AFTER_THE_LAST_EVENT)
        if not self._thread.is_alive():
            self._connection.close()

    def _work(self) -> None:
        try:
            for event in self._received():
                if self._abandoned.is_set():
                    break
                self._queue.put(event)
            self._queue.put(None)
        except BaseException as error:
            self._queue.put(_as_fault(error))
        finally:
            if self._abandoned.is_set():
                with contextlib.suppress(Exception):
                    self._connection.close()

    def _received(self) -> Iterator[Mapping[str, Any]]:
        left = self._deadline - clock.monotonic()
        response = self._connection.post(self._request, timeout=max(min(left + 1, SILENCE), 0.1))
        try:
            yield from self._events_of(response)
        except Fault:
            raise
        except Exception as error:
            fault = _as_fault(error)
            fault.asked = True
            raise fault from error
        finally:
            response.close()

    def _events_of(self, response: httpx2.Response) -> Iterator[Mapping[str, Any]]:
        kind = response.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind not in ("text/event-stream", ""):
            raise Fault(Cause.API_FAULT, f"expected a stream of events, found {kind[:80]!r}", status=200, asked=True)
        yield from _decoded(response.iter_bytes())


class WholeExchange(Exchange):
    """One try whose reply is one JSON object, told as a single event."""

    def _events_of(self, response: httpx2.Response) -> Iterator[Mapping[str, Any]]:
        data = bytearray()
        for piece in response.iter_bytes():
            data += piece
            _refuse_longer(len(data))
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise Fault(Cause.API_FAULT, "the reply is no JSON object", status=200, asked=True)
        if value.get("error"):
            cause, message, retry_after = fault_of_response(200, {}, value)
            raise Fault(cause, message, status=200, retry_after=retry_after, asked=True)
        yield value


@functools.cache
def trusted_certificates() -> ssl.SSLContext:
    """Which certificates are trusted. Read once in a process: that takes far longer than all else."""
    import httpx2

    return httpx2.create_ssl_context()


def _bound(response: httpx2.Response) -> None:
    """Let the body of a reply end after a number of bytes that depends on its status."""
    import httpx2

    class Bounded(httpx2.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            left = limit
            for piece in body:
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return

        def close(self) -> None:
            body.close()

    limit = LONGEST_REPLY if response.is_success else LONGEST_ERROR
    body: Any = response.stream
    response.stream = Bounded()


def _refuse_longer(size: int) -> None:
    """What is sent is bounded, but it may be compressed."""
    if size > LONGEST_REPLY:
        raise Fault(Cause.API_FAULT, f"the reply is longer than {LONGEST_REPLY} bytes", status=200, asked=True)


def _decoded(pieces: Iterator[bytes]) -> Iterator[Mapping[str, Any]]:
    """The `data` of each server-sent event, which has to be a JSON object. What comes after the last one is dropped."""
    splitter = EventSplitter()
    size = 0
    for piece in pieces:
        size += len(piece)
        _refuse_longer(size)
        yield from map(_object, splitter.feed(piece))
    yield from map(_object, splitter.finish())


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Fault(Cause.API_FAULT, "an event of the reply is no JSON object", status=200, asked=True)
    return value


def _as_fault(error: BaseException) -> Fault:
    """What an exception of SDK or transport means."""
    import anthropic
    import httpx2

    if isinstance(error, Fault):
        return error
    if isinstance(error, anthropic.APIStatusError):
        return _fault_of_status(error)
    origin = error.__cause__ if isinstance(error, anthropic.APIConnectionError) and error.__cause__ else error
    name = type(origin).__name__
    if isinstance(origin, httpx2.LocalProtocolError | UnicodeError):
        return Fault(Cause.CONFIGURATION, "the key cannot be sent as a header of HTTP")
    if isinstance(origin, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return Fault(Cause.CONFIGURATION, f"the base URL of the API cannot be used: {origin}")
    if isinstance(origin, httpx2.TransportError | anthropic.APIConnectionError | OSError):
        sent = not isinstance(origin, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout)
        return Fault(Cause.CONNECTION, f"{name}: {origin}".removesuffix(": "), asked=sent)
    if isinstance(origin, httpx2.DecodingError):
        return Fault(Cause.API_FAULT, f"the reply cannot be decoded: {origin}", asked=True)
    return Fault(Cause.UNEXPECTED, f"{name}: {origin}", asked=True)


def _fault_of_status(error: anthropic.APIStatusError) -> Fault:
    """The fault of a reply with an error status."""
    response = error.response
    cause, message, retry_after = fault_of_response(response.status_code, response.headers, response.content)
    return Fault(cause, message, status=response.status_code, retry_after=retry_after)
