"""The operators of a json_check assertion."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from .json_strict import equal, type_name
from .patterns import search

_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


class Incomparable(ValueError):
    """An operator that says nothing about values of these types."""


def holds(name: str, actual: object, expected: object) -> bool:
    """Tell whether `actual` (null where the expression found nothing) stands to `expected` as the operator says.

    Raises Incomparable when it does not apply to the types.
    """
    if name in _ORDER:
        if type_name(actual) != type_name(expected) or type_name(actual) not in ("number", "string"):
            raise Incomparable(f"a {type_name(actual)} and a {type_name(expected)} have no order")
        return _ORDER[name](actual, expected)
    match name:
        case "equals":
            return equal(actual, expected)
        case "not_equals":
            return not equal(actual, expected)
        case "contains":
            return _contains(actual, expected)
        case "type":
            return _has_type(actual, expected)
        case "regex":
            return _matches(actual, expected)
        case "exists":
            return actual is not None
    raise Incomparable(f"no operator is named {name!r}")


def _has_type(actual: object, expected: object) -> bool:
    """As JSON Schema has it: `integer` is a number without a fraction."""
    if expected == "integer":
        return type_name(actual) == "number" and isinstance(actual, int | float) and actual % 1 == 0
    return type_name(actual) == expected


def _contains(actual: object, expected: object) -> bool:
    if isinstance(actual, list):
        return any(equal(item, expected) for item in actual)
    if isinstance(actual, str | dict) and isinstance(expected, str):
        return expected in actual
    raise Incomparable(f"a {type_name(actual)} cannot contain a {type_name(expected)}")


def _matches(actual: object, expected: object) -> bool:
    if not isinstance(actual, str) or not isinstance(expected, str):
        raise Incomparable(f"a pattern needs a string, not a {type_name(actual)}")
    return search(expected, actual) is not None
