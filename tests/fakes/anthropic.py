"""A fake of the Anthropic Messages API."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .faults import Rendered, send
from .server import Exchange, Fake
from .tools import Offer, translate
from .turns import Call, Request, Say, Tokens, Turn, charged

ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
REASONS = {"context_full": "model_context_window_exceeded"}
TOO_LONG = "prompt is too long: 214318 tokens > 200000 maximum"


class FakeAnthropic(Fake):
    """`url` is what ANTHROPIC_BASE_URL is to be."""

    def is_model_call(self, path: str) -> bool:
        return path == "/v1/messages"

    def answer(self, exchange: Exchange) -> None:
        body = exchange.request.body
        if not isinstance(body.get("messages"), list) or not isinstance(body.get("model"), str):
            return exchange.json(400, self.error_body(400, {"message": "messages and model are required"}))
        return send(exchange, Messages(self, exchange.request), self.take(exchange.request))

    def answer_other(self, exchange: Exchange, method: str) -> None:
        path = exchange.request.path.partition("?")[0]
        if method == "POST" and path == "/v1/messages/count_tokens":
            return exchange.json(200, {"input_tokens": len(json.dumps(exchange.request.body)) // 4})
        if method in ("GET", "HEAD"):
            found = {"data": [], "has_more": False, "first_id": None, "last_id": None} if path == "/v1/models" else {}
            return exchange.json(200, found)
        return super().answer_other(exchange, method)

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        kind = options.get("type", ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error"))
        error = {"type": kind, "message": options.get("message", f"the fake answers {status}")}
        if "code" in options:
            error["code"] = options["code"]
        return {"type": "error", "error": error, "request_id": f"req_{uuid.uuid4().hex[:20]}"}

    def is_sub_agent(self, request: Request) -> bool:
        return "x-claude-code-agent-id" in request.headers

    def first_text(self, body: Mapping[str, Any]) -> str:
        users = (message["content"] for message in body["messages"] if message.get("role") == "user")
        return "\n".join(
            text for text in texts_of(next(users, "")) if not text.lstrip().startswith("<system-reminder>")
        )


def texts_of(content: Any) -> list[str]:
    """The texts of a message's or a system prompt's content, which is a text or a list of blocks."""
    if isinstance(content, str):
        return [content]
    return [block["text"] for block in content or [] if isinstance(block, dict) and block.get("type") == "text"]


class Messages:
    """The dialect, for one call."""

    def __init__(self, fake: FakeAnthropic, request: Request) -> None:
        self._fake = fake
        self._request = request
        self._body = request.body
        self.streamed = bool(request.body.get("stream"))

    def render(self, turn: Turn, truncated: bool = False) -> Rendered:
        tokens = self._fake.next_tokens(turn.usage)
        message = self._message(turn, tokens)
        bill = charged(message["model"], tokens)
        if self.streamed:
            return Rendered(tuple(map(event, stream_events(message, truncated))), bill, True)
        if truncated:
            for block in message["content"]:
                block.update({"input": {}} if block["type"] == "tool_use" else {})
        return Rendered((json.dumps(message).encode(),), bill, False)

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._fake.error_body(status, options)

    def error_event(self, options: Mapping[str, Any]) -> bytes:
        error = self._fake.error_body(529, {"message": "Overloaded", **options})
        return event(error)

    def context_full(self) -> tuple[int, dict[str, Any]]:
        return 400, self._fake.error_body(400, {"message": TOO_LONG})

    def spoil(self, piece: bytes) -> bytes | None:
        if not self.streamed:
            return piece[: len(piece) * 2 // 3].ljust(len(piece), b"#")
        return piece.replace(b'"delta":', b'"delta" "') if b"content_block_delta" in piece else None

    def _message(self, turn: Turn, tokens: Tokens | None) -> dict[str, Any]:
        blocks = [block for part in turn.parts for block in self._blocks(part)]
        calls = any(block["type"] == "tool_use" for block in blocks)
        reason = turn.stop_reason or ("tool_use" if calls else "end_turn")
        message = {
            "id": f"msg_{uuid.uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": turn.model or self._body["model"],
            "content": blocks,
            "stop_reason": REASONS.get(reason, reason),
            "stop_sequence": None,
        }
        return message if tokens is None else {**message, "usage": usage(tokens)}

    def _blocks(self, part: Any) -> Iterator[dict[str, Any]]:
        if isinstance(part, Say):
            yield {"type": "text", "text": part.text}
        elif isinstance(part, Call):
            for made in translate(part, self._offer()):
                yield {
                    "type": "tool_use",
                    "id": f"toolu_{uuid.uuid4().hex[:24]}",
                    "name": made.name,
                    "input": made.input,
                }
        else:
            yield {"type": "thinking", "thinking": part.text, "signature": "ZmFrZQ=="}

    def _offer(self) -> Offer:
        tools = {tool["name"]: tool.get("input_schema", {}) for tool in self._body.get("tools", []) if "name" in tool}
        messages = [text for one in self._body["messages"][:3] for text in texts_of(one["content"])]
        said = "\n".join([*texts_of(self._body.get("system")), *messages])
        found = re.search(r"(?:working directory|cwd): (/\S.*)", said, re.IGNORECASE)
        return Offer(tools, found[1].strip() if found else "", said)


def usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input_tokens,
        "cache_creation_input_tokens": tokens.cache_creation_tokens,
        "cache_read_input_tokens": tokens.cache_read_tokens,
        "cache_creation": {"ephemeral_5m_input_tokens": tokens.cache_creation_tokens, "ephemeral_1h_input_tokens": 0},
        "output_tokens": tokens.output_tokens,
        "service_tier": "standard",
    }


def event(data: Mapping[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


def stream_events(message: Mapping[str, Any], truncated: bool) -> Iterator[dict[str, Any]]:
    used = message.get("usage")
    start = {**message, "content": [], "stop_reason": None}
    yield {
        "type": "message_start",
        "message": start if used is None else {**start, "usage": {**used, "output_tokens": 1}},
    }
    yield {"type": "ping"}
    for index, block in enumerate(message["content"]):
        yield from block_events(index, block, truncated)
    reason = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    end: dict[str, Any] = {"type": "message_delta", "delta": reason}
    if used is not None:
        counts = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
        end["usage"] = {name: used[name] for name in counts}
    yield end
    yield {"type": "message_stop"}


def block_events(index: int, block: Mapping[str, Any], truncated: bool) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]]
    if block["type"] == "text":
        begun = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"], 40)]
    elif block["type"] == "tool_use":
        begun = {**block, "input": {}}
        written = json.dumps(block["input"])
        written = written[: len(written) * 2 // 3] if truncated else written
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces(written, 30)]
    else:
        begun = {**block, "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"], 40)]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    yield {"type": "content_block_start", "index": index, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def pieces(text: str, size: int) -> list[str]:
    """The text in a few pieces; at most fifty, so that a long one costs no time."""
    size = max(size, len(text) // 50 + 1)
    return [text[start : start + size] for start in range(0, len(text), size)]
