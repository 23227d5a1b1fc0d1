"""What was said so far, as the API takes it: always a transcript to which a prompt can be added."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...model_api.messages import Reply

CACHED: Mapping[str, str] = {"type": "ephemeral"}
_CACHED_MESSAGES = 2
"""Last messages of the user whose end is a point from which the prompt cache goes on."""

Block = Mapping[str, Any]


class Messages:
    """Messages of user and assistant in turn; each call of a tool has its result before anything else is said."""

    def __init__(self) -> None:
        self._messages: list[tuple[str, list[Block]]] = []
        self._unanswered: list[str] = []

    def prompt(self, text: str) -> None:
        """Add what the user says. Calls of tools that were left open are answered as not carried out."""
        for call in list(self._unanswered):
            self.answer(call, "not carried out: the agent was stopped", is_error=True)
        self._say("user", [{"type": "text", "text": text}])

    def reply(self, reply: Reply) -> list[Block]:
        """Add a reply of the model, without texts that are empty, and return its calls of tools."""
        content = [block for block in reply.content if block.get("type") != "text" or block["text"].strip()]
        calls = [block for block in content if block.get("type") == "tool_use"]
        self._unanswered = [call["id"] for call in calls]
        if content:
            self._say("assistant", content)
        return calls

    def answer(self, call: str, text: str, *, is_error: bool) -> None:
        """Add the result of a call of a tool."""
        self._unanswered.remove(call)
        self._say("user", [{"type": "tool_result", "tool_use_id": call, "content": text, "is_error": is_error}])

    def _say(self, role: str, content: list[Block]) -> None:
        if self._messages and self._messages[-1][0] == role:
            self._messages[-1][1].extend(content)
        else:
            self._messages.append((role, content))

    def messages(self) -> list[dict[str, Any]]:
        """The messages of a request."""
        last = {id(content) for content in [c for role, c in self._messages if role == "user"][-_CACHED_MESSAGES:]}
        return [
            {"role": role, "content": _marked(content) if id(content) in last else content}
            for role, content in self._messages
        ]


def _marked(content: list[Block]) -> list[Block]:
    return [*content[:-1], {**content[-1], "cache_control": CACHED}]
