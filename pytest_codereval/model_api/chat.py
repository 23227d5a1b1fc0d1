"""Any OpenAI-compatible endpoint for chat completions, asked and answered in the terms of the Messages API."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

from ..errors import Cause
from ..trajectory.model import UNKNOWN, Usage
from .assembly import Assembly, Reply, without_surrogates
from .credentials import Credentials
from .json_parts import count, mapping, mappings, text
from .messages import MessagesApi
from .reply_usage import charge
from .stream import Connection, Exchange, Fault, WholeExchange

_STOP_REASONS: Mapping[str, str] = MappingProxyType(
    {
        "stop": "end_turn",
        "tool_calls": "tool_use",
        "function_call": "tool_use",
        "length": "max_tokens",
        "content_filter": "refusal",
    }
)


class ChatApi(MessagesApi):
    """See `MessagesApi`. A request has model, system (a text), messages of plain texts, tools and a forced tool_choice.

    All other keys go to the endpoint as they are. `own` are its base URL, to which `/chat/completions` is added, and
    what carries the key.
    """

    def __init__(self, own: Credentials, *, first_wait: float = 1.0) -> None:
        super().__init__(first_wait=first_wait, own=own)

    def _connect(self) -> Connection:
        return _ChatConnection(self._credentials)

    def _exchange(self, connection: Connection, request: Mapping[str, Any], deadline: float) -> Exchange:
        return WholeExchange(connection, as_chat(request), deadline)

    def _assembly(self) -> Assembly:
        return ChatAssembly()


class _ChatConnection(Connection):
    path = "/chat/completions"
    streams = False


def as_chat(request: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a chat completion that asks the same."""
    own = ("system", "messages", "tools", "tool_choice")
    body = {key: value for key, value in request.items() if key not in own}
    first = [{"role": "system", "content": request["system"]}] if request.get("system") else []
    body["messages"] = [*first, *request["messages"]]
    if tools := request.get("tools"):
        body["tools"] = [
            {
                "type": "function",
                "function": {
                    "name": tool["name"],
                    "description": tool["description"],
                    "parameters": tool["input_schema"],
                },
            }
            for tool in tools
        ]
    if choice := request.get("tool_choice"):
        body["tool_choice"] = {"type": "function", "function": {"name": choice["name"]}}
    return body


class ChatAssembly(Assembly):
    """Takes the one object that a whole completion is."""

    def __init__(self) -> None:
        super().__init__()
        self._reply: Reply | None = None
        self._used = UNKNOWN

    @property
    def usage(self) -> Usage:
        return self._used

    def add(self, event: Mapping[str, Any]) -> None:
        """Raises Fault for an object that is no completion."""
        self.begun = True
        self.id = text(event.get("id"))
        self.model = text(event.get("model")) or None
        self._used = usage_of(event.get("usage"))
        choices = mappings(event.get("choices"))
        if len(choices) != 1:
            _nonsense(f"expected one choice, found {len(choices)}")
        message = mapping(choices[0].get("message"))
        reason = "refusal" if message.get("refusal") else _reason(choices[0].get("finish_reason"))
        broken_off = reason in ("max_tokens", "refusal")
        content = tuple(without_surrogates(block) for block in _blocks(message, may_be_torn=broken_off))
        self._reply = Reply(self.id, self.model or "", content, reason, self._used)
        self.whole = True

    def reply(self) -> Reply:
        if self._reply is None:
            _nonsense("the reply is empty")
        return self._reply


def usage_of(told: object) -> Usage:
    """What a completion says that it used; tokens of the prompt that came from a cache are counted apart."""
    usage = mapping(told)
    prompt, cached = count(usage.get("prompt_tokens")), mapping(usage.get("prompt_tokens_details")).get("cached_tokens")
    from_cache = count(cached) if cached is not None or prompt is None else 0
    plain = prompt - from_cache if prompt is not None and from_cache is not None and from_cache <= prompt else None
    return Usage(
        input_tokens=plain,
        cache_creation_tokens=None if prompt is None else 0,
        cache_read_tokens=from_cache,
        output_tokens=count(usage.get("completion_tokens")),
        cost_usd=charge(usage),
    )


def _reason(told: object) -> str:
    if not isinstance(told, str):
        _nonsense("the reply does not say why it stopped")
    return _STOP_REASONS.get(told, told)


def _blocks(message: Mapping[str, Any], may_be_torn: bool) -> Iterator[Mapping[str, Any]]:
    if said := text(message.get("content")):
        yield {"type": "text", "text": said}
    for call in mappings(message.get("tool_calls")):
        function = mapping(call.get("function"))
        written = _parsed(function.get("arguments"))
        if written is None:
            if may_be_torn:
                continue
            _nonsense(f"the arguments of the tool {text(function.get('name'))[:80]!r} are no whole JSON object")
        yield {"type": "tool_use", "id": text(call.get("id")), "name": text(function.get("name")), "input": written}


def _parsed(arguments: object) -> dict[str, Any] | None:
    """The arguments as JSON, NaN and infinity included: who reads them says what they may be."""
    try:
        value = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _nonsense(what: str) -> NoReturn:
    raise Fault(Cause.API_FAULT, f"the reply makes no sense: {what}", status=200, asked=True)
