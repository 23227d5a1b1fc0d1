"""Compiling JMESPath expressions, and names and counts of arguments of the functions that they call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jmespath
import jmespath.exceptions
import jmespath.functions

from .nearest import hint


def expression_error(expression: str) -> str | None:
    """Return what is wrong with a JMESPath expression, or None when it can be evaluated."""
    try:
        parsed = jmespath.compile(expression).parsed
    except jmespath.exceptions.JMESPathError as error:
        return f"not a JMESPath expression: {str(error).splitlines()[0]}"
    except (ValueError, RecursionError) as error:
        return f"not a usable JMESPath expression: {error}"
    return next((message for node in _walk(parsed) if (message := _call_error(node))), None)


def _walk(node: Any) -> Iterator[dict[str, Any]]:
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            yield current
            pending.extend(current.get("children", ()))


def _call_error(node: dict[str, Any]) -> str | None:
    if node.get("type") != "function_expression":
        return None
    table = jmespath.functions.Functions.FUNCTION_TABLE
    name = node["value"]
    if name not in table:
        return f"JMESPath has no function {name!r}{hint(name, table)}"
    signature = table[name]["signature"]
    given, expected = len(node["children"]), len(signature)
    variadic = bool(signature) and bool(signature[-1].get("variadic"))
    if given != expected and not (variadic and given >= expected):
        return f"the function {name} takes {expected}{' or more' if variadic else ''} arguments, not {given}"
    return None
