"""What differs between providers: which calls are passed on, how their errors look, who is a sub-agent."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from types import MappingProxyType

from ...text import clean

MODEL = r"[A-Za-z0-9._:@-]+"


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """A call that is passed on. `dialect` names the shape of a model's reply (`usage.DIALECTS`), None for no reply."""

    methods: tuple[str, ...]
    path: re.Pattern[str]
    dialect: str | None = None


def _endpoint(methods: str, path: str, dialect: str | None = None) -> Endpoint:
    return Endpoint(tuple(methods.split()), re.compile(path), dialect)


_CHAT = (
    _endpoint("POST", r"/responses(/compact)?", "responses"),
    _endpoint("POST", r"/(chat/)?completions", "chat"),
    _endpoint("POST", r"/responses/input_tokens"),
    _endpoint("GET", rf"/models(/{MODEL}){{0,2}}"),
)

_ENDPOINTS: Mapping[str, tuple[Endpoint, ...]] = MappingProxyType(
    {
        "anthropic": (
            _endpoint("POST", r"/v1/messages", "messages"),
            _endpoint("POST", r"/v1/messages/count_tokens"),
            _endpoint("GET", rf"/v1/models(/{MODEL})?"),
            _endpoint("GET HEAD", r"/|/api/hello"),
        ),
        "openai": _CHAT,
        "gemini": (
            _endpoint("POST", rf"/v1(alpha|beta)?/models/{MODEL}:(streamG|g)enerateContent", "gemini"),
            _endpoint("POST", rf"/v1(alpha|beta)?/models/{MODEL}:countTokens"),
            _endpoint("GET", rf"/v1(alpha|beta)?/models(/{MODEL})?"),
        ),
    }
)


def endpoint(provider: str, method: str, path: str) -> Endpoint | None:
    """The endpoint behind a path as `provider_path` gave it; None for a call that is not passed on.

    What is not listed could spend what no one counts (batches, images) or read what is not the trial's (files).
    """
    for known in _ENDPOINTS[provider]:
        if method in known.methods and known.path.fullmatch(path):
            return known
    return None


def provider_path(provider: str, path: str) -> str:
    """The part of a path that follows the provider's base URL: OpenAI's base holds the `/v1` of the program's."""
    return path.removeprefix("/v1") if provider == "openai" and path.startswith("/v1/") else path


def requested_model(provider: str, path: str, body: bytes) -> str | None:
    """The model that a call asks for, where it can be told."""
    if provider == "gemini":
        found = re.search(rf"/models/({MODEL}):", path)
        return found.group(1) if found else None
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        return None
    name = parsed.get("model") if isinstance(parsed, dict) else None
    return clean(name)[:200] if isinstance(name, str) and name else None


def sub_agent(headers: Mapping[str, str]) -> str | None:
    """The id of the sub-agent that makes a call, None for the main thread. `headers` have names in lower case."""
    if agent := headers.get("x-claude-code-agent-id"):
        return clean(agent)[:200]
    if headers.get("x-codex-parent-thread-id"):
        return clean(headers.get("thread-id") or headers.get("session-id") or "unknown")[:200]
    return None


_ANTHROPIC_TYPES = MappingProxyType(
    {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
)
_GEMINI_STATES = MappingProxyType(
    {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 502: "INTERNAL"}
)


def error_body(provider: str, status: int, message: str) -> bytes:
    """An error as the provider's API would tell it."""
    kind = _ANTHROPIC_TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    if provider == "anthropic":
        value: dict[str, object] = {"type": "error", "error": {"type": kind, "message": message}}
    elif provider == "gemini":
        state = _GEMINI_STATES.get(status, "UNKNOWN")
        value = {"error": {"code": status, "message": message, "status": state}}
    else:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        value = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return json.dumps(value).encode()
