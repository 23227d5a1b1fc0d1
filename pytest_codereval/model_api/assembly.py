"""Makes one reply of the events of a stream, and holds it to what the API promises."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NoReturn

from ..errors import Cause
from ..trajectory.model import UNKNOWN, Usage
from .faults import fault_of_response
from .json_parts import text
from .reply_usage import MessagesUsage
from .stop_reasons import BROKEN_OFF
from .stream import Fault

_TEXTS: Mapping[str, tuple[str, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}


@dataclasses.dataclass(frozen=True)
class Reply:
    """A whole reply. `content` holds its blocks as the API takes them back; tool inputs are parsed.

    A tool input that was cut off, because of max_tokens and the like, is left out with its block.
    """

    id: str
    model: str
    content: tuple[Mapping[str, Any], ...]
    stop_reason: str
    usage: Usage = UNKNOWN

    @property
    def text(self) -> str:
        """Its text blocks, joined by an empty line."""
        return "\n\n".join(block["text"] for block in self.content if block.get("type") == "text")


class Assembly:
    """What is known of a reply so far. `whole` tells that its last event was there."""

    def __init__(self) -> None:
        self.begun = False
        self.whole = False
        self.id = ""
        self.model: str | None = None
        self._usage = MessagesUsage()
        self._stop_reason: object = None
        self._blocks: dict[int, dict[str, Any]] = {}
        self._texts: dict[int, dict[str, list[str]]] = {}
        self._citations: dict[int, list[object]] = {}

    @property
    def usage(self) -> Usage:
        """What the reply says so far that it used."""
        return self._usage.usage

    def add(self, event: Mapping[str, Any]) -> None:
        """Take the next event. Raises Fault for an event that reports an error or makes no sense; unknown ones pass."""
        kind = event.get("type")
        if kind == "error":
            cause, message, retry_after = fault_of_response(200, {}, event)
            raise Fault(cause, message, status=200, retry_after=retry_after, asked=self.begun)
        if kind == "message_start":
            self._start(_mapping(event, "message"))
        elif kind in ("content_block_start", "content_block_delta", "message_delta", "message_stop") and not self.begun:
            _nonsense(f"{kind} comes before message_start")
        elif kind == "content_block_start":
            self._blocks[_index(event)] = dict(_mapping(event, "content_block"))
        elif kind == "content_block_delta":
            self._extend(_index(event), _mapping(event, "delta"))
        elif kind == "message_delta":
            self._stop_reason = _mapping(event, "delta").get("stop_reason") or self._stop_reason
            self._usage.add(event.get("usage"))
        elif kind == "message_stop":
            self.whole = True

    def _start(self, message: Mapping[str, Any]) -> None:
        if self.begun:
            _nonsense("message_start comes twice")
        self.begun = True
        self.id = text(message.get("id"))
        self.model = text(message.get("model")) or None
        self._usage.add(message.get("usage"), is_first=True)

    def _extend(self, index: int, delta: Mapping[str, Any]) -> None:
        if index not in self._blocks:
            _nonsense("a delta belongs to no block")
        kind = delta.get("type")
        if kind == "input_json_delta":
            self._append(index, "input", delta.get("partial_json"))
        elif isinstance(kind, str) and kind in _TEXTS:
            source, target = _TEXTS[kind]
            self._append(index, target, delta.get(source))
        elif kind == "citations_delta":
            self._citations.setdefault(index, []).append(delta.get("citation"))

    def _append(self, index: int, key: str, piece: object) -> None:
        if not isinstance(piece, str):
            _nonsense("a delta has no text")
        self._texts.setdefault(index, {}).setdefault(key, []).append(piece)

    def reply(self) -> Reply:
        """The reply when all its events were taken. Raises Fault when it is not whole or makes no sense."""
        if not self.begun:
            _nonsense("the reply is empty")
        if not self.whole:
            raise Fault(Cause.CONNECTION, "the reply broke off before its end", status=200, asked=True)
        if not isinstance(self._stop_reason, str):
            _nonsense("the reply does not say why it stopped")
        blocks = [self._finished(index) for index in sorted(self._blocks)]
        content = tuple(block for block in blocks if block is not None)
        ids = [block["id"] for block in content if block.get("type") == "tool_use"]
        if len(set(ids)) < len(ids):
            _nonsense("two tool calls have one id")
        return Reply(self.id, self.model or "", content, self._stop_reason, self.usage)

    def _finished(self, index: int) -> Mapping[str, Any] | None:
        block = self._blocks[index]
        pieces = self._texts.get(index, {})
        for key in pieces.keys() - {"input"}:
            block[key] = text(block.get(key)) + "".join(pieces[key])
        if index in self._citations:
            begun = block.get("citations")
            block["citations"] = [*(begun if isinstance(begun, list) else ()), *self._citations[index]]
        if "input" in block:
            written = "".join(pieces.get("input", ()))
            value = _parsed(written) if written.strip() else block["input"]
            if not isinstance(value, dict):
                if self._stop_reason in BROKEN_OFF:
                    return None
                _nonsense(f"the input of the tool {text(block.get('name'))[:80]!r} is no whole JSON object")
            block["input"] = value
        _check(block)
        finished: Mapping[str, Any] = without_surrogates(block)
        return finished


def _check(block: Mapping[str, Any]) -> None:
    kind = block.get("type")
    if not isinstance(kind, str):
        _nonsense("a block has no type")
    needed = {"text": ("text",), "tool_use": ("id", "name"), "thinking": ("thinking",)}.get(kind, ())
    for key in needed:
        if not isinstance(block.get(key), str):
            _nonsense(f"a block of type {kind} has no {key}")
    if kind == "tool_use" and ("input" not in block or not block["id"] or not block["name"]):
        _nonsense("a tool call has no id, no name or no input")


def _parsed(written: str) -> object:
    try:
        return json.loads(written, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def without_surrogates(value: Any) -> Any:
    """Return a JSON value in which halves of surrogate pairs are joined; a lone half becomes U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {without_surrogates(key): without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_surrogates(item) for item in value]
    return value


def _mapping(event: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = event.get(key)
    if not isinstance(value, Mapping):
        _nonsense(f"an event of type {event.get('type')} has no {key}")
    return value


def _index(event: Mapping[str, Any]) -> int:
    index = event.get("index")
    if not isinstance(index, int):
        _nonsense(f"an event of type {event.get('type')} has no index")
    return index


def _nonsense(what: str) -> NoReturn:
    raise Fault(Cause.API_FAULT, f"the reply makes no sense: {what}", status=200, asked=True)
