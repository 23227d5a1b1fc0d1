"""One call on its way: admitted, sent with the real key, its reply passed on byte for byte, its usage told."""

from __future__ import annotations

import dataclasses
import itertools
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from ... import clock
from ...errors import Cause
from ...model_api.credentials import Credentials
from ...model_api.faults import fault_of_response, presentable
from ...trajectory.model import UNKNOWN, ModelCall, ModelFault
from . import provider_rules
from .hang_up import HangUps, hung_up
from .key_filter import KeyFilter
from .outbox import Outbox
from .upstream import Aborted, Client, Headers, UpstreamCall
from .usage import ReplyReader

if TYPE_CHECKING:
    import httpx2

LARGEST_ERROR = 1_000_000
"""Bytes of an error's body that are looked at."""

STOPPED = "stopped at a limit of the trial: no further call of the model is made"


class ClientGone(Exception):
    """The program closed its end, or the call was broken off with it."""


class Answer(Protocol):
    """The way back to the program. Each method raises ClientGone when there is none any more."""

    def begin(self, status: int, reason: str, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
        """Send the head; `length` is that of the body in bytes, None if it is not known before."""

    def write(self, piece: bytes) -> None: ...

    def end(self) -> None: ...

    def error(self, status: int, message: str) -> None:
        """A whole reply that tells an error in the provider's shape."""


@dataclasses.dataclass(frozen=True)
class Call:
    """What the program asked for. `path` is what follows the base URL, `query` begins with its question mark."""

    method: str
    path: str
    query: str
    headers: Headers
    body: bytes
    dialect: str | None
    sub_agent: str | None


@dataclasses.dataclass(frozen=True)
class Route:
    """What all calls of one gateway share."""

    provider: str
    credentials: Credentials
    client: Client
    outbox: Outbox
    hang_ups: HangUps


_numbers = itertools.count(1)


class ForwardedCall:
    """One call. `run` works in the thread of its connection; the other methods may be called from any thread."""

    def __init__(self, route: Route, call: Call, connection: socket.socket) -> None:
        self._route = route
        self._call = call
        self._connection = connection
        self._upstream = UpstreamCall(route.client)
        self._reader: ReplyReader | None = None
        self._fault: ModelFault | None = None
        self._number = f"call-{next(_numbers)}"
        self._started = 0.0
        self._told = threading.Lock()
        self._released = threading.Lock()
        self._is_admitted = False

    def run(self, answer: Answer) -> None:
        """Raises ClientGone when the connection is of no more use."""
        self._route.hang_ups.watch(self._connection, self.abort)
        try:
            if self._admitted(answer):
                self._forward(answer)
        finally:
            self._route.hang_ups.forget(self._connection)
            self.tell()
            self._release()

    def abort(self) -> None:
        """Break off at once. What was used so far is told."""
        self._upstream.abort()
        self._route.outbox.nudge()

    def tell(self) -> None:
        """Tell once what the call used and what failed. Nothing for a call that was never sent."""
        if self._call.dialect is None or not self._told.acquire(blocking=False):
            return
        reader = self._reader
        outbox = self._route.outbox
        reading = reader.reading if reader else None
        name = outbox.unused((reading.id if reading else None) or self._number)
        replied = self._fault is None or (self._fault.status is None and self._upstream.sent)
        if self._upstream.sent and replied:
            outbox.put(self._model_call(name))
        fault = self._fault
        if fault is None and reading is not None and reading.fault is not None:
            cause, message = reading.fault
            fault = ModelFault(name, cause, message, status=200, time=clock.now())
        if fault is not None:
            outbox.put(dataclasses.replace(fault, id=name))
        self._release()

    def _release(self) -> None:
        """Let the next call go, once; also one that was told from outside before it was admitted."""
        if self._is_admitted and self._released.acquire(blocking=False):
            self._route.outbox.ended(self._is_main)

    def _model_call(self, name: str) -> ModelCall:
        reading = self._reader.reading if self._reader else None
        call = self._call
        told = reading.model if reading else None
        return ModelCall(
            id=name,
            model=told or provider_rules.requested_model(self._route.provider, call.path, call.body),
            usage=reading.usage if reading else UNKNOWN,
            complete=reading is not None and reading.complete,
            started=self._started,
            ended=clock.now(),
            parent_id=call.sub_agent,
        )

    def _admitted(self, answer: Answer) -> bool:
        if self._call.dialect is None:
            return True
        self._is_admitted = self._route.outbox.admit(self._is_main, self._gone)
        if self._is_admitted:
            return True
        if self._gone():
            raise ClientGone
        answer.error(400, STOPPED)
        return False

    @property
    def _is_main(self) -> bool:
        return self._call.sub_agent is None

    def _gone(self) -> bool:
        return self._upstream.aborted or hung_up(self._connection)

    def _forward(self, answer: Answer) -> None:
        call = self._call
        url = self._route.credentials.base_url + call.path + call.query
        headers = (*call.headers, *_encoded(self._route.credentials.headers))
        self._started = clock.now()
        try:
            with self._upstream.open(call.method, url, headers, call.body) as response:
                self._relay(response, answer)
        except Aborted:
            raise ClientGone from None
        except ClientGone:
            raise
        except Exception as error:
            self._no_reply(error)
            self.tell()
            answer.error(502, "the gateway got no answer from the API")

    def _no_reply(self, error: Exception) -> None:
        import httpx2

        mistakes = (httpx2.UnsupportedProtocol, httpx2.InvalidURL, httpx2.LocalProtocolError)
        cause = Cause.CONFIGURATION if isinstance(error, mistakes) else Cause.CONNECTION
        said = str(error) or "no further word"
        message = presentable(f"no answer from the API: {said} ({type(error).__name__})")
        self._fault = ModelFault(self._number, cause, message, time=clock.now())

    def _relay(self, response: httpx2.Response, answer: Answer) -> None:
        keys = KeyFilter(self._route.credentials.key)
        length = _length(response)
        bodiless = self._call.method == "HEAD" or response.status_code in (204, 304)
        consume, finish = self._watcher(response)
        raw = [(name, keys.whole(value)) for name, value in response.headers.raw]
        if nothing_follows := bodiless or length == 0:
            finish()
        answer.begin(response.status_code, response.reason_phrase, raw, length)
        seen = 0
        for piece in self._pieces(response):
            seen += len(piece)
            consume(piece)
            if seen == length:
                finish()
            answer.write(keys.feed(piece))
        if not nothing_follows and seen != length:
            finish()
        answer.write(keys.finish())
        answer.end()

    def _pieces(self, response: httpx2.Response) -> Iterator[bytes]:
        import httpx2

        try:
            yield from response.iter_raw()
            if self._upstream.aborted:
                raise Aborted
        except (httpx2.TransportError, httpx2.StreamError) as error:
            if self._upstream.aborted:
                raise Aborted from error
            if self._reader is not None:
                self._reader.cut()
            self.tell()
            raise ClientGone from error

    def _watcher(self, response: httpx2.Response) -> tuple[Callable[[bytes], None], Callable[[], None]]:
        """What looks at each piece before the program gets it, and what is called before it gets the last one."""
        if self._call.dialect is None:
            return (lambda piece: None), (lambda: None)
        if 200 <= response.status_code < 300:
            return self._watched(response)
        return self._failing(response)

    def _watched(self, response: httpx2.Response) -> tuple[Callable[[bytes], None], Callable[[], None]]:
        assert self._call.dialect is not None
        headers = response.headers
        reader = ReplyReader(self._call.dialect, headers.get("content-type", ""), headers.get("content-encoding", ""))
        self._reader = reader

        def consume(piece: bytes) -> None:
            reader.feed(piece)
            if reader.reading.ended:
                self.tell()

        def finish() -> None:
            reader.finish()
            self.tell()

        return consume, finish

    def _failing(self, response: httpx2.Response) -> tuple[Callable[[bytes], None], Callable[[], None]]:
        body = bytearray()
        self._fault = self._fault_of(response, b"")

        def consume(piece: bytes) -> None:
            if len(body) < LARGEST_ERROR:
                body.extend(piece)

        def finish() -> None:
            self._fault = self._fault_of(response, bytes(body))
            self.tell()

        return consume, finish

    def _fault_of(self, response: httpx2.Response, body: bytes) -> ModelFault:
        status = response.status_code
        cause, message, wait = fault_of_response(status, dict(response.headers), body)
        if status < 400:
            cause, message = Cause.BAD_REQUEST, f"the API answered with status {status}, which is no reply"
        return ModelFault(self._number, cause, message, status=status, retry_after=wait, time=clock.now())


def _encoded(headers: Mapping[str, str]) -> Headers:
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers.items()]


def _length(response: httpx2.Response) -> int | None:
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and "transfer-encoding" not in response.headers else None
