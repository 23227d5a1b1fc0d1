"""How replies are sent, whole or going wrong on purpose."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

from .server import Exchange
from .turns import Charged, Fault, Turn

PAGE = b"<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body><h1>Bad Gateway</h1></body></html>\n"


@dataclasses.dataclass(frozen=True)
class Rendered:
    """A reply as it goes over the wire: SSE events, or one JSON body."""

    pieces: tuple[bytes, ...]
    charged: Charged
    streamed: bool


class Dialect(Protocol):
    """What is different from provider to provider, for one call; `streamed` is what its client asked for."""

    streamed: bool

    def render(self, turn: Turn, truncated: bool = False) -> Rendered:
        """The whole reply; `truncated` lets the arguments of its tool calls break off."""

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON body of an error status."""

    def error_event(self, options: Mapping[str, Any]) -> bytes:
        """An error inside a stream."""

    def context_full(self) -> tuple[int, dict[str, Any]] | bytes:
        """An error status and its body, or a stream's events."""

    def spoil(self, piece: bytes) -> bytes | None:
        """The piece with broken JSON, None when it carries no content."""


def send(exchange: Exchange, dialect: Dialect, entry: Turn | Fault) -> None:
    """Answer a call by an entry of the script."""
    if isinstance(entry, Turn):
        exchange.pause(entry.delay)
        return send_whole(exchange, dialect.render(entry))
    if isinstance(entry.kind, int):
        return send_status(exchange, dialect, entry.kind, entry.options)
    return PLAYERS[entry.kind](exchange, dialect, entry)


def send_whole(exchange: Exchange, rendered: Rendered) -> None:
    last = rendered.pieces[-1]
    with Unfinished(exchange, rendered.charged):
        begin(exchange, rendered)
        for piece in rendered.pieces[:-1]:
            exchange.write(piece)
        exchange.write(last[:-1])
        exchange.end_charged(last[-1:], rendered.charged)


def begin(exchange: Exchange, rendered: Rendered) -> None:
    if rendered.streamed:
        exchange.begin(200, {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"})
    else:
        exchange.begin(200, {"content-type": "application/json"}, sum(map(len, rendered.pieces)))


class Unfinished:
    """Notes a reply that was begun and is left by an exception."""

    def __init__(self, exchange: Exchange, charged: Charged) -> None:
        self._fake = exchange.fake
        self._charged = charged

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self._fake.unfinished.append(self._charged)


def send_status(exchange: Exchange, dialect: Dialect, status: int, options: Mapping[str, Any]) -> None:
    headers = dict(options.get("headers", {}))
    if "retry_after" in options:
        headers["retry-after"] = options["retry_after"]
    exchange.json(status, dialect.error_body(status, options), headers)


def send_part(exchange: Exchange, rendered: Rendered, after: int) -> None:
    """The head and so many events; of a JSON body, half when `after` is not 0."""
    begin(exchange, rendered)
    if rendered.streamed:
        for piece in rendered.pieces[:after]:
            exchange.write(piece)
    elif after:
        body = rendered.pieces[0]
        exchange.write(body[: len(body) // 2])


def cut(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    rendered = dialect.render(fault.reply)
    how = fault.options.get("how", "end")
    with Unfinished(exchange, rendered.charged):
        send_part(exchange, rendered, fault.options.get("after", 3))
        if how == "end":
            exchange.end()
        exchange.drop(reset=how == "reset")


def reset(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    if after := fault.options.get("after"):
        rendered = dialect.render(fault.reply)
        with Unfinished(exchange, rendered.charged):
            send_part(exchange, rendered, after)
            exchange.drop(reset=True)
    exchange.drop(reset=True)


def hang(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    seconds = fault.options.get("seconds")
    if after := fault.options.get("after"):
        rendered = dialect.render(fault.reply)
        with Unfinished(exchange, rendered.charged):
            send_part(exchange, rendered, after)
            exchange.pause(seconds)
            exchange.drop()
    exchange.pause(seconds)
    exchange.drop()


def malformed_json(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    rendered = dialect.render(fault.reply)
    pieces = list(rendered.pieces)
    place, broken = next(
        (place, broken) for place, piece in enumerate(pieces) if (broken := dialect.spoil(piece)) is not None
    )
    pieces[place] = broken
    send_whole(exchange, dataclasses.replace(rendered, pieces=tuple(pieces)))


def truncated_tool(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    send_whole(exchange, dialect.render(fault.reply, truncated=True))


def html(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    exchange.raw(fault.options.get("status", 200), PAGE, {"content-type": "text/html; charset=utf-8"})


def empty(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    exchange.raw(200, b"", {"content-type": "text/event-stream" if dialect.streamed else "application/json"})


def sse_error(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    if not dialect.streamed:
        return exchange.json(529, dialect.error_body(529, fault.options))
    rendered = dialect.render(fault.reply)
    with Unfinished(exchange, rendered.charged):
        send_part(exchange, rendered, fault.options.get("after", 2))
        exchange.write(dialect.error_event(fault.options))
        exchange.end()
        exchange.drop()
    return None


def slow_drip(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    rendered = dialect.render(fault.reply)
    body = b"".join(rendered.pieces)
    size = fault.options.get("size", 1)
    with Unfinished(exchange, rendered.charged):
        begin(exchange, rendered)
        for start in range(0, len(body) - 1, size):
            exchange.write(body[start : min(start + size, len(body) - 1)])
            exchange.pause(fault.options.get("seconds", 0.05))
        exchange.end_charged(body[-1:], rendered.charged)


def stopped(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    """A whole reply that ends for another reason."""
    send_whole(exchange, dialect.render(dataclasses.replace(fault.reply, stop_reason=str(fault.kind))))


def context_full(exchange: Exchange, dialect: Dialect, fault: Fault) -> None:
    if fault.options.get("how", "error") == "stop":
        return stopped(exchange, dialect, fault)
    said = dialect.context_full()
    if isinstance(said, tuple):
        return exchange.json(*said)
    exchange.begin(200, {"content-type": "text/event-stream; charset=utf-8"})
    exchange.write(said)
    return exchange.end()


PLAYERS = {
    "cut": cut,
    "malformed_json": malformed_json,
    "truncated_tool": truncated_tool,
    "html": html,
    "empty": empty,
    "sse_error": sse_error,
    "slow_drip": slow_drip,
    "hang": hang,
    "refusal": stopped,
    "max_tokens": stopped,
    "context_full": context_full,
    "reset": reset,
}
