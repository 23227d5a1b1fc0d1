"""Scripts, which play turns and faults in order, and how they are written as JSON."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from .turns import Entry, Fault, Request, ScriptEntry, Turn, call, fault, say, think, turn

USED_UP = "the script is used up"


class Script:
    """Entries that are handed out one a call; with `loop` again from the start, else a text once they are used up."""

    def __init__(self, entries: Sequence[ScriptEntry | list[ScriptEntry]], loop: bool = False) -> None:
        self._entries = [one for entry in entries for one in (entry if isinstance(entry, list) else [entry])]
        self._loop = loop and bool(self._entries)
        self._next: dict[str, int] = {}
        self._lock = threading.Lock()
        self.exhausted = False

    def take(self, request: Request, conversation: str = "") -> Entry:
        """The next entry of a conversation."""
        with self._lock:
            place = self._next.get(conversation, 0)
            self._next[conversation] = place + 1
            if place >= len(self._entries) and not self._loop:
                self.exhausted = True
                return say(USED_UP)
            entry = self._entries[place % len(self._entries)]
        return entry if isinstance(entry, Turn | Fault) else entry(request)


def entry_from_json(value: Any) -> Entry:
    """An entry as JSON: a text, {"say": text}, {"call": tool, "input": {}}, {"turn": [..]} or {"fault": kind}."""
    if isinstance(value, str):
        return say(value)
    rest = dict(value)
    if "fault" in rest:
        return fault(rest.pop("fault"), **rest)
    if "call" in rest:
        return turn(call(rest.pop("call"), **rest.pop("input", {})), **rest)
    if "think" in rest:
        return think(rest["think"])
    if "turn" in rest:
        parts = [entry_from_json(one) for one in rest.pop("turn")]
        return turn(*(one for one in parts if isinstance(one, Turn)), **rest)
    return say(rest.pop("say"), **rest)
