"""What a program told in the harness's words: numbers that may be anything, ids that may come again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ...trajectory.model import UNKNOWN, Usage

_LARGEST = 1e15


def count(value: object) -> int | None:
    """`value` if it is a whole number from 0 on, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST else None


def _positive(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGEST
    return float(value) if known else None  # type: ignore[arg-type]


def seconds(milliseconds: object, default: float) -> float:
    """A time in milliseconds since the epoch as seconds, `default` where it is none."""
    found = _positive(milliseconds)
    return default if found is None else found / 1000


def usage(fresh: object, created: object, cached: object, output: object, cost: object = None) -> Usage:
    """A program's own count of one reply; nothing but zeros means that it does not know. A cost of 0 is unknown."""
    buckets = (count(fresh), count(created), count(cached), count(output))
    return Usage(*buckets, _positive(cost)) if any(buckets) else UNKNOWN


class Ids:
    """One id for each tool call of a trial, also where the model uses an id again."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        self._ended: set[str] = set()

    def begun(self, told: str) -> str:
        """The id of a call that begins."""
        self._times[told] = self._times.get(told, 0) + 1
        self._ended.discard(told)
        return self._current(told)

    def ended(self, told: str) -> str:
        """The id of a call that ends; one that was not told to begin, begins now."""
        if told not in self._times or told in self._ended:
            self.begun(told)
        self._ended.add(told)
        return self._current(told)

    def _current(self, told: str) -> str:
        times = self._times[told]
        return told if times == 1 else f"{told}#{times}"


class Words:
    """The names of a program's tools and of their parameters, and the harness's names for them."""

    def __init__(self, tools: Mapping[str, tuple[str, Mapping[str, str]]]) -> None:
        self._tools = tools

    def said(self, tool: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Name and parameters in the vocabulary of `trajectory.model`; what has no name there keeps its own."""
        name, renamed = self._tools.get(tool, (tool, MappingProxyType({})))
        return name, {renamed.get(key, key): value for key, value in parameters.items()}
