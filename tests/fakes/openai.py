"""A fake of the OpenAI APIs: Responses, and Chat Completions."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from .chat import Chat
from .faults import Rendered, send
from .openai_tools import items_of, offer_of
from .server import Exchange, Fake
from .turns import Call, Request, Say, Tokens, Turn, charged

ERRORS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    402: ("insufficient_quota", "insufficient_quota"),
    403: ("invalid_request_error", "permission_denied"),
    404: ("invalid_request_error", "not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", "server_is_overloaded"),
}
INCOMPLETE = {"max_tokens": "max_output_tokens", "refusal": "content_filter"}
NOT_THE_PROMPT = ("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions", "<skills")
TOO_LONG = "Your input exceeds the context window of this model. Please adjust your input and try again."


class FakeOpenAI(Fake):
    """`url` is what OPENAI_BASE_URL is to be; it ends in /v1."""

    path = "/v1"

    def is_model_call(self, path: str) -> bool:
        return path in ("/v1/responses", "/v1/chat/completions")

    def default_tokens(self, number: int) -> Tokens:
        return Tokens(100 + 10 * number, 0, 20, 7 + number)

    def answer(self, exchange: Exchange) -> None:
        request = exchange.request
        key = "messages" if "chat" in request.path else "input"
        if not isinstance(request.body.get(key), list | str) or not isinstance(request.body.get("model"), str):
            return exchange.json(400, self.error_body(400, {"message": f"{key} and model are required"}))
        dialect = (Chat if "chat" in request.path else Responses)(self, request)
        return send(exchange, dialect, self.take(request))

    def answer_other(self, exchange: Exchange, method: str) -> None:
        if method in ("GET", "HEAD") and exchange.request.path.partition("?")[0] == "/v1/models":
            return exchange.json(200, {"object": "list", "data": [], "models": []})
        return super().answer_other(exchange, method)

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        kind, code = ERRORS.get(status, ("server_error" if status >= 500 else "invalid_request_error", None))
        return {
            "error": {
                "message": options.get("message", f"the fake answers {status}"),
                "type": options.get("type", kind),
                "param": None,
                "code": options.get("code", code),
            }
        }

    def offers_tools(self, body: Mapping[str, Any]) -> bool:
        return bool(body.get("tools")) or bool(offer_of(body).tools)

    def is_sub_agent(self, request: Request) -> bool:
        return "x-openai-subagent" in request.headers

    def first_text(self, body: Mapping[str, Any]) -> str:
        said = body.get("messages", body.get("input", []))
        if isinstance(said, str):
            return said
        for message in said:
            texts = [text for text in message_texts(message) if not text.lstrip().startswith(NOT_THE_PROMPT)]
            if message.get("role") == "user" and texts:
                return "\n".join(texts)
        return ""


def message_texts(message: Mapping[str, Any]) -> list[str]:
    content = message.get("content") or []
    return [content] if isinstance(content, str) else [part["text"] for part in content if "text" in part]


class Responses:
    """The dialect of /v1/responses, for one call."""

    def __init__(self, fake: Fake, request: Request) -> None:
        self._fake = fake
        self._body = request.body
        self.streamed = bool(request.body.get("stream"))

    def render(self, turn: Turn, truncated: bool = False) -> Rendered:
        tokens = self._fake.next_tokens(turn.usage)
        response = self._response(turn, tokens, truncated)
        bill = charged(response["model"], tokens)
        if self.streamed:
            return Rendered(tuple(numbered(response_events(response))), bill, True)
        return Rendered((json.dumps(response).encode(),), bill, False)

    def error_body(self, status: int, options: Mapping[str, Any]) -> dict[str, Any]:
        return self._fake.error_body(status, options)

    def error_event(self, options: Mapping[str, Any]) -> bytes:
        error = {"code": options.get("code", "server_is_overloaded"), "message": options.get("message", "Overloaded")}
        return b"".join(numbered([{"type": "response.failed", "response": self._failed(error)}]))

    def context_full(self) -> tuple[int, dict[str, Any]] | bytes:
        error = {"code": "context_length_exceeded", "message": TOO_LONG}
        if self.streamed:
            failed = self._failed(error)
            begun = {**failed, "status": "in_progress", "error": None}
            return b"".join(
                numbered(
                    [{"type": "response.created", "response": begun}, {"type": "response.failed", "response": failed}]
                )
            )
        return 400, self._fake.error_body(400, error)

    def spoil(self, piece: bytes) -> bytes | None:
        if not self.streamed:
            return piece[: len(piece) * 2 // 3].ljust(len(piece), b"#")
        return piece.replace(b'"item":', b'"item" "') if b"response.output_item.done" in piece else None

    def _response(self, turn: Turn, tokens: Tokens | None, truncated: bool) -> dict[str, Any]:
        offer = offer_of(self._body)
        output: list[dict[str, Any]] = []
        for part in turn.parts:
            if isinstance(part, Call):
                output += items_of(part, offer, truncated)
            else:
                output.append(message_item(part.text) if isinstance(part, Say) else reasoning_item(part.text))
        reason = INCOMPLETE.get(turn.stop_reason or "", turn.stop_reason)
        return {
            **self._base(turn.model),
            "status": "incomplete" if reason else "completed",
            "incomplete_details": {"reason": reason} if reason else None,
            "output": output,
            "usage": None if tokens is None else usage(tokens),
        }

    def _failed(self, error: Mapping[str, Any]) -> dict[str, Any]:
        return {**self._base(None), "status": "failed", "error": error, "output": [], "usage": None}

    def _base(self, model: str | None) -> dict[str, Any]:
        return {
            "id": f"resp_{uuid.uuid4().hex[:20]}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model or self._body["model"],
            "error": None,
        }


def usage(tokens: Tokens) -> dict[str, Any]:
    details = {"cached_tokens": tokens.cache_read_tokens}
    if tokens.cache_creation_tokens:
        details["cache_write_tokens"] = tokens.cache_creation_tokens
    return {
        "input_tokens": tokens.all_input,
        "input_tokens_details": details,
        "output_tokens": tokens.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens.all_input + tokens.output_tokens,
    }


def message_item(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    name = f"msg_{uuid.uuid4().hex[:16]}"
    return {"type": "message", "id": name, "role": "assistant", "status": "completed", "content": content}


def reasoning_item(text: str) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": f"rs_{uuid.uuid4().hex[:16]}", "summary": summary, "encrypted_content": "e30="}


def numbered(events: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Iterator[bytes]:
    for number, one in enumerate(events):
        data = {**one, "sequence_number": number}
        yield f"event: {one['type']}\ndata: {json.dumps(data)}\n\n".encode()


def response_events(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(response["output"]):
        started = {**item, "status": "in_progress"} if "status" in item else item
        started = {**started, "content": []} if item["type"] == "message" else started
        yield {"type": "response.output_item.added", "output_index": index, "item": started}
        place = {"item_id": item["id"], "output_index": index}
        yield from item_events(item, place)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response['status']}", "response": response}


def item_events(item: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if item["type"] == "message":
        text, where = item["content"][0]["text"], {**place, "content_index": 0}
        part = {"type": "output_text", "text": "", "annotations": []}
        yield {"type": "response.content_part.added", **where, "part": part}
        size = max(40, len(text) // 50 + 1)
        for start in range(0, len(text), size):
            yield {"type": "response.output_text.delta", **where, "delta": text[start : start + size]}
        yield {"type": "response.output_text.done", **where, "text": text}
        yield {"type": "response.content_part.done", **where, "part": item["content"][0]}
    elif item["type"] == "function_call":
        yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}
    elif item["type"] == "custom_tool_call":
        yield {"type": "response.custom_tool_call_input.delta", **place, "delta": item["input"]}
        yield {"type": "response.custom_tool_call_input.done", **place, "input": item["input"]}
