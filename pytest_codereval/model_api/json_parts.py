"""Takes apart JSON that somebody else wrote and that may be anything: what is not of the kind asked for is empty."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_TOO_MANY = 10**12


def text(value: object) -> str:
    """`value` if it is text."""
    return value if isinstance(value, str) else ""


def mapping(value: object) -> Mapping[str, Any]:
    """`value` if it is a mapping."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Those parts of a list that are mappings."""
    return [part for part in value if isinstance(part, Mapping)] if isinstance(value, list) else []


def parsed(told: str | bytes | None) -> dict[str, Any]:
    """The JSON object in a text, such as one line of a stream."""
    try:
        value = json.loads(told or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def count(value: object) -> int | None:
    """`value` if it can be a number of tokens, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY else None
