"""What a reply used, by the `usage` that it tells: one reading for calls of the harness and of programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..trajectory.model import Usage
from .json_parts import count, mapping

_DEARER = {"speed": "fast", "inference_geo": "us"}
"""Ways of working that cost more than the price list says."""

_FREE_TOOLS = frozenset(("web_fetch_requests",))
"""Tools of the API that cost nothing beside their tokens."""


class MessagesUsage:
    """The usage of one reply of the Messages API, from its parts in the order in which they come."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}
        self._extras = False
        self._output: int | None = None

    def add(self, told: object, *, is_first: bool = False) -> None:
        """Take `usage` of one part. The first part of a stream does not know the output yet, whatever it says."""
        usage = mapping(told)
        _lay_over(self._told, usage)
        self._extras = self._extras or _has_extras(usage)
        said = count(usage.get("output_tokens"))
        if said is not None and not is_first:
            self._output = said

    @property
    def usage(self) -> Usage:
        """What is known so far. A cache that is not told of was not used; one told of in nonsense is unknown."""
        told = self._told
        prompt = count(told.get("input_tokens"))
        return Usage(
            input_tokens=prompt,
            cache_creation_tokens=self._cached("cache_creation_input_tokens", prompt),
            cache_read_tokens=self._cached("cache_read_input_tokens", prompt),
            output_tokens=self._output,
            cost_usd=charge(told),
            extras=self._extras,
        )

    def _cached(self, name: str, prompt: int | None) -> int | None:
        told = self._told.get(name)
        return count(told) if told is not None or prompt is None else 0


def charge(usage: Mapping[str, Any]) -> float | None:
    """US dollars that the provider charged. With a key of one's own behind a broker `cost` is the broker's part only.

    None when it does not say.
    """
    cost = usage.get("cost")
    if isinstance(cost, bool) or not isinstance(cost, int | float) or usage.get("is_byok"):
        return None
    return float(cost) if 0 <= cost < 1e9 else None


def _lay_over(older: dict[str, Any], newer: Mapping[str, Any]) -> None:
    """Lay newer values over older ones; a later 0 says nothing, since some servers fill in what they do not know."""
    for name, value in newer.items():
        if older.get(name) is None or count(value) or (name == "cost" and charge({name: value})):
            older[name] = value


def _has_extras(usage: Mapping[str, Any]) -> bool:
    return (
        any(count(calls) for name, calls in mapping(usage.get("server_tool_use")).items() if name not in _FREE_TOOLS)
        or bool(count(mapping(usage.get("cache_creation")).get("ephemeral_1h_input_tokens")))
        or any(usage.get(name) == dear for name, dear in _DEARER.items())
    )
