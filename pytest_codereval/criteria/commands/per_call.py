"""Remembering what was found out about one tool call, for those who look again after each further call."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from ...trajectory.model import ToolCall

_Result = TypeVar("_Result")


def per_call(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Call `function(call, *hashable)` once for each tool call, and keep its result as long as that object lives."""
    known: dict[int, tuple[weakref.ref[ToolCall], dict[Hashable, _Result]]] = {}

    @functools.wraps(function)
    def remembered(call: ToolCall, *rest: Any) -> _Result:
        number = id(call)
        if number not in known:
            known[number] = weakref.ref(call, lambda _: known.pop(number, None)), {}
        results = known[number][1]
        if rest not in results:
            results[rest] = function(call, *rest)
        return results[rest]

    return remembered
