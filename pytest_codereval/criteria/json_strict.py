"""JSON as RFC 8259 has it, and comparisons that keep true apart from 1."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn


class NotJson(ValueError):
    """A text that is not JSON, with the reason."""


def parse(text: str) -> tuple[object, tuple[str, ...]]:
    """Return the value of a JSON text, and the names that some object in it has twice (the last one counts).

    Raises NotJson, also for NaN and Infinity, a byte order mark, and nesting that is too deep to read.
    """
    twice: dict[str, None] = {}

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        result = dict(items)
        if len(result) < len(items):
            counts = Counter(name for name, _ in items)
            twice.update(dict.fromkeys(name for name, count in counts.items() if count > 1))
        return result

    if text.startswith("\ufeff"):
        raise NotJson("it starts with a byte order mark, which JSON does not allow")
    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=_refuse)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except NotJson:
        raise
    except ValueError as error:
        raise NotJson(str(error)) from None
    return value, tuple(twice)


def _refuse(name: str) -> NoReturn:
    raise NotJson(f"it contains {name}, which is no JSON value")


def type_name(value: object) -> str:
    """Return the JSON name of the type of `value`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def is_json(value: object) -> bool:
    """Tell whether a Python value is one that JSON can write: a date or a set is not."""
    if isinstance(value, list):
        return all(map(is_json, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_json(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def equal(left: object, right: object) -> bool:
    """Tell whether two JSON values are the same; 1 and 1.0 are, true and 1 are not."""
    if type_name(left) != type_name(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return left == right
