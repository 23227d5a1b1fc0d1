"""A fake of the Gemini API, as far as a coding agent needs it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .faults import Rendered, send
from .server import Exchange, Fake
from .tools import Offer, translate
from .turns import Call, Request, Say, Tokens, Turn, charged

STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
REASONS = {"max_tokens": "MAX_TOKENS", "refusal": "SAFETY", "context_full": "MAX_TOKENS"}
TOO_LONG = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."


class FakeGemini(Fake):
    """`url` is what GOOGLE_GEMINI_BASE_URL is to be."""

    def is_model_call(self, path: str) -> bool:
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def default_tokens(self, number: int) -> Tokens:
        return Tokens(100 + 10 * number, 0, 20, 7 + number)

    def answer(self, exchange: Exchange) -> None:
        if not isinstance(exchange.request.body.get("contents"), list):
            return exchange.json(400, self.error_body(400, {"message": "contents are required"}))
        return send(exchange, GenerateContent(self, exchange.request), self.take(exchange.request))

    def answer_other(self, exchange: Exchange, method: str) -> None:
        if exchange.request.path.partition("?")[0].endswith(":countTokens"):
            return exchange.json(200, {"totalTokens": len(json.dumps(exchange.request.body)) // 4})
        return super().answer_other(exchange, method)

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        message = options.get("message", f"the fake answers {status}")
        kind = options.get("type", STATUSES.get(status, "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"))
        return {"error": {"code": options.get("code", status), "message": message, "status": kind}}

    def is_sub_agent(self, request: Request) -> bool:
        return False

    def first_text(self, body: Mapping[str, Any]) -> str:
        users = (one.get("parts") or [] for one in body["contents"] if one.get("role", "user") == "user")
        parts: list[Mapping[str, Any]] = next(users, [])
        return "\n".join(part["text"] for part in parts if "text" in part)


class GenerateContent:
    """The dialect, for one call."""

    def __init__(self, fake: FakeGemini, request: Request) -> None:
        self._fake = fake
        self._body = request.body
        path = request.path.partition("?")[0]
        self._model = path.rpartition("/")[2].partition(":")[0]
        self.streamed = path.endswith(":streamGenerateContent")

    def render(self, turn: Turn, truncated: bool = False) -> Rendered:
        tokens = self._fake.next_tokens(turn.usage)
        base = {"modelVersion": turn.model or self._model, "responseId": uuid.uuid4().hex[:16]}
        bill = charged(base["modelVersion"], tokens)
        parts = [made for part in turn.parts for made in self._parts(part, truncated)]
        reason = REASONS.get(turn.stop_reason or "", turn.stop_reason or "STOP")
        end = {**base, **({} if tokens is None else {"usageMetadata": usage(tokens)})}
        if not self.streamed:
            return Rendered((json.dumps({**end, "candidates": [candidate(parts, reason)]}).encode(),), bill, False)
        events: list[dict[str, Any]] = [{**base, "candidates": [candidate([part])]} for part in parts]
        events.append({**end, "candidates": [candidate([], reason)]})
        return Rendered(tuple(map(event, events)), bill, True)

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._fake.error_body(status, options)

    def error_event(self, options: Mapping[str, Any]) -> bytes:
        return event(self._fake.error_body(503, {"message": "The model is overloaded.", **options}))

    def context_full(self) -> tuple[int, dict[str, Any]]:
        return 400, self._fake.error_body(400, {"message": TOO_LONG})

    def spoil(self, piece: bytes) -> bytes | None:
        return piece.replace(b'"parts":', b'"parts" "') if b'"parts"' in piece else None

    def _parts(self, part: Any, truncated: bool) -> Iterator[dict[str, Any]]:
        if isinstance(part, Say):
            yield {"text": part.text}
        elif isinstance(part, Call):
            for made in translate(part, self._offer()):
                yield {"functionCall": {"name": made.name, "args": {} if truncated else made.input}}
        else:
            yield {"text": part.text, "thought": True}

    def _offer(self) -> Offer:
        groups = (tool.get("functionDeclarations") or [] for tool in self._body.get("tools") or [])
        functions = [function for group in groups for function in group]
        schemas = {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in functions}
        return Offer(schemas)


def candidate(parts: list[dict[str, Any]], reason: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    return made if reason is None else {**made, "finishReason": reason}


def usage(tokens: Tokens) -> dict[str, int]:
    return {
        "promptTokenCount": tokens.all_input,
        "cachedContentTokenCount": tokens.cache_read_tokens,
        "candidatesTokenCount": tokens.output_tokens,
        "totalTokenCount": tokens.all_input + tokens.output_tokens,
    }


def event(data: Mapping[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\r\n\r\n".encode()
