"""Turning what a model refused into messages for the author."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import Problem
from ..text import clean
from .base import Finding, Location
from .nearest import hint
from .yaml_reader import ReadError

_SHOWN = 80
_MOST_PROBLEMS = 50
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def shown_path(path: Path) -> str:
    """Return the path for messages: relative to the current directory when it lies below it."""
    try:
        return clean(str(path.relative_to(Path.cwd()) if path.is_absolute() else path))
    except (ValueError, OSError):
        return clean(str(path))


class Places(typing.Protocol):
    """Where the values of a task stand: one document, or one with layers around it."""

    def place(self, location: Location) -> tuple[str | None, int, int, Location]:
        """File, line, column and location to tell people; the file None is the one that is looked at."""
        ...


def problem_at(path: str, document: Places, location: Location, message: str) -> Problem:
    """Return the problem with its line and column."""
    file, line, column, inside = document.place(location)
    return Problem(file or path, line, column, clean(dotted(inside)), clean(message))


def problems_of(
    error: ValidationError, path: str, document: Places, root: type[BaseModel], below: Location = ()
) -> tuple[Problem, ...]:
    """Return one problem for each thing that the model refused, in the order of the file.

    `below` leads to the place of the model in the document.
    """
    found = [
        problem_at(path, document, (*below, *detail["loc"]), message_of(detail, root))
        for detail in error.errors(include_url=False)
    ]
    found = sorted(dict.fromkeys(found), key=lambda item: (item.line, item.column))
    if len(found) > _MOST_PROBLEMS:
        last = found[_MOST_PROBLEMS]
        more = f"and {len(found) - _MOST_PROBLEMS} more problems from here on"
        found[_MOST_PROBLEMS:] = [Problem(path, last.line, last.column, "", more)]
    return tuple(found)


def unreadable(path: str, error: ReadError) -> Problem:
    """Return the problem of a file that could not be read."""
    return Problem(path, error.line, error.column, clean(dotted(error.location)), clean(error.message))


def finding_problem(path: str, document: Places, finding: Finding) -> Problem:
    """Return the problem that a rule found."""
    return problem_at(path, document, finding.location, finding.message)


def dotted(location: Location) -> str:
    """Return the key path as people write it: `success_criteria[2].pattern`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def message_of(detail: Mapping[str, Any], root: type[BaseModel]) -> str:
    """What people are told of one detail of a ValidationError; `root` is the model that was asked."""
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "problem":
        return _with_value(context["message"], detail["input"])
    if kind == "unknown_key":
        return _unknown_key(detail["loc"], context["valid"], root)
    if kind == "extra_forbidden":
        return f"unknown key {detail['loc'][-1]!r}"
    if kind == "missing":
        return f"the required key {detail['loc'][-1]!r} is missing"
    if kind in _KINDS:
        quoting = "; put it in quotes" if kind == "string_type" and _is_scalar(detail["input"]) else ""
        return f"expected {_KINDS[kind]}, found {describe(detail['input'])}{quoting}"
    if kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        return f"expected {words} {context[key]}, found {describe(detail['input'])}"
    if kind in ("literal_error", "enum"):
        return _choice(context["expected"], detail["input"])
    if kind == "too_short":
        return f"expected at least {context['min_length']} items, found {context['actual_length']}"
    if kind == "too_long":
        return f"expected at most {context['max_length']} items, found {context['actual_length']}"
    return f"{detail['msg'].removeprefix('Value error, ')}, found {describe(detail['input'])}"


def _with_value(message: str, value: Any) -> str:
    if not _is_scalar(value) and not isinstance(value, str):
        return message
    text = describe(value)
    return message if text in message or repr(value) in message else f"{message}; found {text}"


def _choice(expected: str, value: Any) -> str:
    names = [name.strip("'") for name in expected.replace(" or ", ", ").split(", ")]
    suggestion = hint(value, names) if isinstance(value, str) else ""
    expected = {"True": "true", "False": "false"}.get(expected, expected)
    return f"expected {expected}, found {describe(value)}{suggestion}"


def _unknown_key(location: Location, valid: tuple[str, ...], root: type[BaseModel]) -> str:
    key = str(location[-1])
    if kinds := _types_with(key, location):
        return f"unknown key {key!r} here; only {', '.join(kinds)} can have it"
    places = _places(root).get(key, [])
    if places and location[0] != "success_criteria":
        return f"unknown key {key!r} here; it belongs under {' or '.join(places[:3])}"
    if suggestion := hint(key, valid):
        return f"unknown key {key!r}{suggestion}"
    return f"unknown key {key!r} (keys here: {', '.join(sorted(valid))})"


def _types_with(key: str, location: Location) -> list[str]:
    """Which other types of criterion or agent have a key that this one lacks."""
    from .agent_models import AGENT_MODELS
    from .criteria_models import CRITERION_MODELS

    models: Mapping[str, type[BaseModel]] = {}
    if location[0] == "success_criteria" and len(location) == 3:
        models = CRITERION_MODELS
    elif location[0] == "agent" and len(location) == 2:
        models = AGENT_MODELS
    return [kind for kind, model in models.items() if key in model.model_fields]


def describe(value: Any) -> str:
    """Return the value for a message, shortened."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _is_scalar(value: Any) -> bool:
    return value is not None and not isinstance(value, str | Mapping | list | tuple | BaseModel)


def _places(root: type[BaseModel]) -> dict[str, list[str]]:
    """Where each key of the format stands, as dotted paths of the blocks that have it."""
    found: dict[str, list[str]] = {}
    pending: list[tuple[type[BaseModel], str]] = [(root, "")]
    seen: set[type[BaseModel]] = set()
    while pending:
        model, prefix = pending.pop(0)
        if model in seen:
            continue
        seen.add(model)
        for name, field in model.model_fields.items():
            name = field.alias or name
            found.setdefault(name, []).append(prefix or "the top level")
            inner = f"{prefix}.{name}" if prefix else name
            pending.extend((child, inner) for child in models_in(field.annotation))
    return found


def models_in(annotation: Any) -> list[type[BaseModel]]:
    """The models that stand in the annotation of a field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in typing.get_args(annotation) for model in models_in(argument)]
