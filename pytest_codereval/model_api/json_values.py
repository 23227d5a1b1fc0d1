"""Reads single values of JSON that someone else wrote: what is of another kind counts as not told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TOO_MANY = 10**12


def mapping(value: object) -> Mapping[str, Any]:
    """`value` when it is an object, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def text(value: object) -> str:
    """`value` when it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def count(value: object) -> int | None:
    """`value` when it can be a number of tokens, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY else None
