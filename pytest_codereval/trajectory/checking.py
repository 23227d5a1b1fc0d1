"""Whether an event is one, in all its parts: what is kept of it must be countable, comparable and writable as JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import Cause
from .model import Event, Message, ModelCall, ModelFault, ToolCall, Usage

_KINDS = (ToolCall, Message, ModelCall, ModelFault)

DEEPEST = 100
"""Lists and objects inside each other in the parameters of a tool."""

_LARGEST = 10**15
"""No count, time or amount of money is larger."""


def checked(event: object) -> Event:
    """The event itself, parameters of tools as plain data. Raises ValueError for anything else."""
    if type(event) not in _KINDS:
        raise ValueError(f"it told {_shown(event)}, which is no event: expected {_one_of(k.__name__ for k in _KINDS)}")
    assert isinstance(event, _KINDS)
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        is_right = _OF_KIND.get((type(event), field.name)) or _RULES[field.name]
        if not is_right(value):
            raise ValueError(f"it told a {type(event).__name__} whose {field.name} is {_shown(value)}")
    if isinstance(event, ToolCall):
        return dataclasses.replace(event, parameters=json.loads(json.dumps(dict(event.parameters))))
    return event


def _one_of(names: Any) -> str:
    return ", ".join(names)


def _shown(value: object) -> str:
    try:
        return repr(value)[:100]
    except Exception:
        return f"a {type(value).__name__}"


def _text(value: object) -> bool:
    return isinstance(value, str)


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _amount(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _or_none(rule: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or rule(value)


def _parameters(value: object) -> bool:
    """Whether it is a JSON object, not nested deeper than can be worked with."""
    if not isinstance(value, Mapping) or not all(map(_text, value)) or _is_deep(value):
        return False
    try:
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [item for part in level for item in _inside(part)]
        if not level:
            return False
    return True


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def _usage(value: object) -> bool:
    if type(value) is not Usage:
        return False
    counts = (value.input_tokens, value.cache_creation_tokens, value.cache_read_tokens, value.output_tokens)
    known = all(map(_or_none(_count), counts)) and _or_none(_amount)(value.cost_usd)
    return known and isinstance(value.extras, bool)


_RULES: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("id", "name", "text", "output", "message"), _text),
    **dict.fromkeys(("model", "parent_id"), _or_none(_text)),
    **dict.fromkeys(("started", "time"), _amount),
    **dict.fromkeys(("ended", "retry_after"), _or_none(_amount)),
    "attempt": _count,
    "cause": lambda value: isinstance(value, Cause),
    "complete": lambda value: isinstance(value, bool),
    "exit_status": _or_none(_count),
    "parameters": _parameters,
    "role": lambda value: value in ("user", "assistant"),
    "usage": _usage,
}
_OF_KIND: Mapping[tuple[type, str], Callable[[Any], bool]] = {
    (ToolCall, "status"): lambda value: isinstance(value, str) and value in ("success", "error", "unknown"),
    (ModelFault, "status"): _or_none(_count),
}
