"""What one reply of a model used, read while it passes: a body of JSON or a stream of events, of any provider."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ...errors import Cause
from ...model_api.faults import fault_of_response, presentable
from ...model_api.json_parts import count, mapping, text
from ...model_api.reply_usage import MessagesUsage, charge
from ...model_api.sse import EventSplitter
from ...model_api.stop_reasons import broken_off
from ...text import clean
from ...trajectory.model import Usage

LARGEST_BODY = 64_000_000
"""Bytes of a body that is not a stream; of a larger one nothing is known."""

_ID_LENGTH = 200


@dataclasses.dataclass
class Reading:
    """What is known so far. `ended` tells that the reply came to its end, `fault` why it is not one to work with."""

    id: str | None = None
    model: str | None = None
    usage: Usage = dataclasses.field(default_factory=Usage)
    messages_usage: MessagesUsage = dataclasses.field(default_factory=MessagesUsage, compare=False)
    ended: bool = False
    finishing: bool = False
    fault: tuple[Cause, str] | None = None
    broken: bool = False

    @property
    def complete(self) -> bool:
        """The reply came to its end, and its usage is all that it tells."""
        return self.ended and not self.broken

    def name(self, id_: object, model: object) -> None:
        self.id = self.id or _word(id_)
        self.model = self.model or _word(model)

    def use(self, usage: Usage) -> None:
        """Take a newer usage, which says nothing of extras."""
        self.usage = dataclasses.replace(usage, extras=self.usage.extras)

    def with_extras(self) -> None:
        self.usage = dataclasses.replace(self.usage, extras=True)

    def fail(self, cause: Cause, message: str) -> None:
        if self.fault is None:
            self.fault = (cause, presentable(message))

    def error(self, data: Mapping[str, Any]) -> None:
        """An error in the place of a reply, or in the middle of one."""
        cause, message, _ = fault_of_response(200, {}, data)
        self.fail(cause, message)
        self.broken = True


class ReplyReader:
    """Reads one reply. Feeding never raises."""

    def __init__(self, dialect: str, content_type: str, content_encoding: str = "") -> None:
        self.reading = Reading()
        self._dialect = DIALECTS[dialect]
        self._type = content_type.lower()
        self._inflate = zlib.decompressobj(47) if content_encoding in ("gzip", "deflate") else None
        self._head = b""
        self._splitter: EventSplitter | None = None
        self._body: bytearray | None = None

    def feed(self, piece: bytes) -> None:
        try:
            self._feed(self._inflate.decompress(piece) if self._inflate else piece)
        except (zlib.error, RecursionError):
            self._malformed("cannot be read")

    def finish(self) -> None:
        """The body came to its end."""
        if self._splitter is not None:
            self._events(self._splitter.finish())
            self.reading.ended = self.reading.ended or self.reading.finishing
            if not self.reading.ended:
                self.reading.fail(Cause.CONNECTION, "the API's reply broke off")
        elif self._body is not None:
            self._whole(bytes(self._body))
        elif "html" in self._type or self._head.startswith(b"<"):
            self.reading.fail(Cause.API_FAULT, "the API answered with a web page in the place of a reply")
        else:
            self.reading.fail(Cause.API_FAULT, "the API's reply is empty")

    def cut(self) -> None:
        """The connection ended inside the body."""
        if not self.reading.ended:
            self.reading.fail(Cause.CONNECTION, "the connection to the API broke inside its reply")

    def _feed(self, piece: bytes) -> None:
        if self._splitter is None and self._body is None:
            piece = (self._head + piece).lstrip()
            self._head = piece[:16]
            if not piece or "html" in self._type or piece.startswith(b"<"):
                return
            if "event-stream" in self._type or ("json" not in self._type and not piece.startswith((b"{", b"["))):
                self._splitter = EventSplitter()
            else:
                self._body = bytearray()
        if self._splitter is not None:
            self._events(self._splitter.feed(piece))
            if self._splitter.overflowed:
                self.reading.broken = True
        elif self._body is not None and len(self._body) <= LARGEST_BODY:
            self._body += piece

    def _events(self, found: list[bytes]) -> None:
        for data in found:
            if data == b"[DONE]":
                self.reading.ended = True
                continue
            try:
                event = json.loads(data)
            except ValueError:
                self._malformed("holds an event that is not JSON")
                continue
            if isinstance(event, dict):
                self._dialect.event(self.reading, event)

    def _whole(self, body: bytes) -> None:
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError):
            self._malformed("is not JSON")
            return
        for part in parsed if isinstance(parsed, list) else [parsed]:
            if not isinstance(part, dict) or not part:
                self._malformed("is not an object")
            elif isinstance(part.get("error"), dict) or part.get("type") == "error":
                self.reading.error(part)
            else:
                self._dialect.whole(self.reading, part)

    def _malformed(self, what: str) -> None:
        self.reading.broken = True
        self.reading.fail(Cause.API_FAULT, f"the API's reply {what}")


def _word(value: object) -> str | None:
    return clean(value)[:_ID_LENGTH] if isinstance(value, str) and value else None


def _messages_usage(reading: Reading, told: object, *, is_first: bool = False) -> None:
    reading.messages_usage.add(told, is_first=is_first)
    reading.usage = reading.messages_usage.usage


def _anthropic_event(reading: Reading, event: Mapping[str, Any]) -> None:
    match event.get("type"):
        case "message_start":
            message = mapping(event.get("message"))
            reading.name(message.get("id"), message.get("model"))
            _messages_usage(reading, message.get("usage"), is_first=True)
        case "message_delta":
            _messages_usage(reading, event.get("usage"))
            _anthropic_stop(reading, mapping(event.get("delta")).get("stop_reason"))
        case "message_stop":
            reading.ended = True
        case "error":
            reading.error(event)


def _anthropic_whole(reading: Reading, message: Mapping[str, Any]) -> None:
    reading.name(message.get("id"), message.get("model"))
    _messages_usage(reading, message.get("usage"))
    _anthropic_stop(reading, message.get("stop_reason"))
    reading.ended = reading.finishing
    if not reading.ended:
        reading.fail(Cause.API_FAULT, "the API's reply has no stop reason")


def _anthropic_stop(reading: Reading, reason: object) -> None:
    reading.finishing = reading.finishing or isinstance(reason, str)
    if (fault := broken_off(reason)) is not None:
        reading.fail(*fault)


def _openai_usage(usage: Mapping[str, Any]) -> Usage:
    """Both APIs of OpenAI count the tokens from and into the cache among those of the prompt."""
    prompt = count(usage.get("input_tokens", usage.get("prompt_tokens")))
    details = mapping(usage.get("input_tokens_details")) or mapping(usage.get("prompt_tokens_details"))
    places = (details.get("cached_tokens"), usage.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"))
    cached = next((tokens for place in places if (tokens := count(place)) is not None), 0)
    written = count(details.get("cache_write_tokens")) or 0
    return Usage(
        input_tokens=None if prompt is None else max(0, prompt - cached - written),
        cache_creation_tokens=None if prompt is None else written,
        cache_read_tokens=None if prompt is None else cached,
        output_tokens=count(usage.get("output_tokens", usage.get("completion_tokens"))),
        cost_usd=charge(usage),
    )


def _responses_event(reading: Reading, event: Mapping[str, Any]) -> None:
    kind = event.get("type")
    if kind == "error":
        reading.error(event if isinstance(event.get("error"), dict) else {"error": event})
        return
    response = mapping(event.get("response"))
    if kind in ("response.completed", "response.incomplete", "response.failed", "response.done"):
        _responses_whole(reading, response)
    else:
        reading.name(response.get("id"), response.get("model"))
        _responses_item(reading, event.get("item") if kind == "response.output_item.done" else None)


_PAID_ITEMS = frozenset("web_search_call file_search_call code_interpreter_call image_generation_call".split())
"""Calls of the API's own tools, which cost more than their tokens."""


def _responses_item(reading: Reading, item: object) -> None:
    """The program tells the model of arguments that break off, and nobody else."""
    call = mapping(item)
    kind = text(call.get("type"))
    if kind in _PAID_ITEMS:
        reading.with_extras()
    if kind != "function_call":
        return
    try:
        json.loads(call["arguments"])
    except (KeyError, TypeError, ValueError, RecursionError):
        reading.fail(Cause.API_FAULT, "the arguments of a tool call are not JSON")


def _responses_whole(reading: Reading, response: Mapping[str, Any]) -> None:
    reading.name(response.get("id"), response.get("model"))
    reading.use(_openai_usage(mapping(response.get("usage"))))
    status = response.get("status")
    reading.ended = status not in ("queued", "in_progress")
    if status == "failed" or mapping(response.get("error")):
        reading.error(response)
    elif status == "incomplete":
        filtered = mapping(response.get("incomplete_details")).get("reason") == "content_filter"
        cause = Cause.REFUSED if filtered else Cause.OUTPUT_CUT
        reading.fail(cause, f"the reply is incomplete ({'content_filter' if filtered else 'max_output_tokens'})")
    output = response.get("output")
    for item in output if isinstance(output, list) else ():
        _responses_item(reading, item)


def _chat_part(reading: Reading, part: Mapping[str, Any]) -> None:
    reading.name(part.get("id"), part.get("model"))
    if mapping(part.get("error")):
        reading.error(part)
    if usage := mapping(part.get("usage")):
        reading.use(_openai_usage(usage))
    choices = part.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        match mapping(choice).get("finish_reason"):
            case None:
                continue
            case "content_filter":
                reading.fail(Cause.REFUSED, "the reply was filtered (finish reason content_filter)")
            case "length":
                reading.fail(Cause.OUTPUT_CUT, "the reply was cut at its limit of tokens (finish reason length)")
        reading.finishing = True


def _chat_whole(reading: Reading, body: Mapping[str, Any]) -> None:
    _chat_part(reading, body)
    reading.ended = True


_GEMINI_REFUSALS = frozenset(("SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "RECITATION", "SPII"))


def _gemini_part(reading: Reading, part: Mapping[str, Any]) -> None:
    reading.name(part.get("responseId"), part.get("modelVersion"))
    if mapping(part.get("error")):
        reading.error(part)
        return
    if usage := mapping(part.get("usageMetadata")):
        reading.use(_gemini_usage(usage))
    told = part.get("candidates")
    candidates = [mapping(one) for one in told] if isinstance(told, list) else []
    if any(one.get("groundingMetadata") for one in candidates):
        reading.with_extras()
    reasons = [one.get("finishReason") for one in candidates]
    reasons.append(mapping(part.get("promptFeedback")).get("blockReason"))
    for reason in reasons:
        if not isinstance(reason, str):
            continue
        reading.finishing = True
        if reason in _GEMINI_REFUSALS or reason == reasons[-1]:
            reading.fail(Cause.REFUSED, f"the reply was blocked ({reason})")
        elif reason == "MAX_TOKENS":
            reading.fail(Cause.OUTPUT_CUT, "the reply was cut at its limit of tokens (MAX_TOKENS)")
    reading.ended = reading.finishing and reading.usage.input_tokens is not None


def _gemini_usage(usage: Mapping[str, Any]) -> Usage:
    """Tokens of thoughts are output, those of tool results are prompt; the cached ones count among the prompt's."""
    prompt = count(usage.get("promptTokenCount"))
    cached = count(usage.get("cachedContentTokenCount")) or 0
    tools = count(usage.get("toolUsePromptTokenCount")) or 0
    output = count(usage.get("candidatesTokenCount"))
    thoughts = count(usage.get("thoughtsTokenCount"))
    told = output is not None or thoughts is not None or usage.get("totalTokenCount") == prompt
    return Usage(
        input_tokens=None if prompt is None else max(0, prompt - cached) + tools,
        cache_creation_tokens=None if prompt is None else 0,
        cache_read_tokens=None if prompt is None else cached,
        output_tokens=(output or 0) + (thoughts or 0) if told else None,
    )


@dataclasses.dataclass(frozen=True)
class _Dialect:
    """Readers of one event of a stream and of a whole body."""

    event: Callable[[Reading, Mapping[str, Any]], None]
    whole: Callable[[Reading, Mapping[str, Any]], None]


DIALECTS: Mapping[str, _Dialect] = MappingProxyType(
    {
        "messages": _Dialect(_anthropic_event, _anthropic_whole),
        "responses": _Dialect(_responses_event, _responses_whole),
        "chat": _Dialect(_chat_part, _chat_whole),
        "gemini": _Dialect(_gemini_part, _gemini_part),
    }
)
