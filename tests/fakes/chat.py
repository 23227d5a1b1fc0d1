"""The dialect of Chat Completions."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .faults import Rendered
from .server import Fake
from .tools import Offer, translate
from .turns import Call, Request, Say, Tokens, Turn, charged

REASONS = {"max_tokens": "length", "refusal": "content_filter", "context_full": "length"}
TOO_LONG = "This model's maximum context length is 128000 tokens. Please reduce the length of the messages."


class Chat:
    """The dialect of /v1/chat/completions, for one call."""

    def __init__(self, fake: Fake, request: Request) -> None:
        self._fake = fake
        self._body = request.body
        self.streamed = bool(request.body.get("stream"))

    def render(self, turn: Turn, truncated: bool = False) -> Rendered:
        tokens = self._fake.next_tokens(turn.usage)
        whole = self._completion(turn, tokens, truncated)
        bill = charged(whole["model"], tokens)
        if not self.streamed:
            return Rendered((json.dumps(whole).encode(),), bill, False)
        asked = (self._body.get("stream_options") or {}).get("include_usage", False)
        return Rendered((*map(event, chunks(whole, asked)), b"data: [DONE]\n\n"), bill, True)

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._fake.error_body(status, options)

    def error_event(self, options: Mapping[str, Any]) -> bytes:
        return event(self._fake.error_body(500, {"message": "Overloaded", **options}))

    def context_full(self) -> tuple[int, dict[str, Any]]:
        return 400, self._fake.error_body(400, {"code": "context_length_exceeded", "message": TOO_LONG})

    def spoil(self, piece: bytes) -> bytes | None:
        if not self.streamed:
            return piece[: len(piece) * 2 // 3].ljust(len(piece), b"#")
        return piece.replace(b'"delta":', b'"delta" "') if b'"content"' in piece or b'"tool_calls"' in piece else None

    def _completion(self, turn: Turn, tokens: Tokens | None, truncated: bool) -> dict[str, Any]:
        calls = [made for part in turn.parts if isinstance(part, Call) for made in self._calls(part, truncated)]
        text = "\n\n".join(part.text for part in turn.parts if isinstance(part, Say))
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:
            message["tool_calls"] = calls
        reason = turn.stop_reason or ("tool_calls" if calls else "stop")
        whole = {
            "id": f"chatcmpl-{uuid.uuid4().hex[:20]}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": turn.model or self._body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": REASONS.get(reason, reason)}],
        }
        return whole if tokens is None else {**whole, "usage": usage(tokens)}

    def _calls(self, call: Call, truncated: bool) -> Iterator[dict[str, Any]]:
        functions = [tool["function"] for tool in self._body.get("tools") or [] if "function" in tool]
        offer = Offer({one["name"]: one.get("parameters") or {} for one in functions})
        for made in translate(call, offer):
            written = json.dumps(made.input)
            arguments = written[: len(written) * 2 // 3] if truncated else written
            function = {"name": made.name, "arguments": arguments}
            yield {"id": f"call_{uuid.uuid4().hex[:20]}", "type": "function", "function": function}


def usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.all_input,
        "completion_tokens": tokens.output_tokens,
        "total_tokens": tokens.all_input + tokens.output_tokens,
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def event(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()


def chunks(whole: Mapping[str, Any], with_usage: bool) -> Iterator[dict[str, Any]]:
    base = {name: whole[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = whole["choices"][0]

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant"})
    text = choice["message"]["content"] or ""
    size = max(40, len(text) // 50 + 1)
    for start in range(0, len(text), size):
        yield chunk({"content": text[start : start + size]})
    for index, made in enumerate(choice["message"].get("tool_calls", [])):
        begun = {**made, "function": {"name": made["function"]["name"], "arguments": ""}}
        yield chunk({"tool_calls": [{"index": index, **begun}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": made["function"]["arguments"]}}]})
    yield chunk({}, choice["finish_reason"])
    if with_usage and "usage" in whole:
        yield {**base, "choices": [], "usage": whole["usage"]}
