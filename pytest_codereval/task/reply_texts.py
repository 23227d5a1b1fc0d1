"""Checks of what replies print: values that JSON can carry, and jinja2 templates."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationInfo

from .base import Finding, Location
from .fields import awaits_row
from .nearest import hint
from .shell_variables import variable_error

if TYPE_CHECKING:
    from jinja2 import Environment

NOTE = "_doc"
"""A key for the author's notes, where JSON has no comments."""

CALL_NAMES = ("tool", "argv", "verb", "positional", "flags", "cwd", "env", "stdin", "state", "nth")
"""What a template of a reply can name."""


class TemplateUse(NamedTuple):
    """What a template asks of a call: its standard input, and environment variables."""

    stdin: bool = False
    variables: frozenset[str] = frozenset()


class TemplateError(Exception):
    """A text that is no template of a reply."""


def is_template(text: str) -> bool:
    """Whether jinja2 would do anything to this text."""
    return "{{" in text or "{%" in text or "{#" in text


def values_in(text: str) -> bool:
    """Whether a template would put something into this text, or decide about parts of it."""
    return "{{" in text or "{%" in text


def without_notes(value: Any) -> Any:
    """`value` without the notes at any depth."""
    if isinstance(value, Mapping):
        return {key: without_notes(item) for key, item in value.items() if key != NOTE}
    if isinstance(value, list | tuple):
        return [without_notes(item) for item in value]
    return value


def keys_in(value: Any, location: Location) -> Iterator[tuple[Location, str]]:
    """Each key of a mapping at any depth of `value`, with its place below `location`."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield (*location, key), key
            yield from keys_in(item, (*location, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from keys_in(item, (*location, index))


def key_findings(value: Any, location: Location) -> Iterator[Finding]:
    """Findings for the keys at any depth of `value` that look like templates: they are printed as they stand."""
    for place, key in keys_in(without_notes(value), location):
        if values_in(key):
            yield Finding(place, "keys are not rendered, template or not: only values are templates")


def texts_in(value: Any, location: Location) -> Iterator[tuple[Location, str]]:
    """Each text at any depth of `value`, but for the names of mappings, with its place below `location`."""
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts_in(item, (*location, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from texts_in(item, (*location, index))


def template_use(text: str) -> TemplateUse:
    """Return what the template asks for. Raises TemplateError when it can never be rendered."""
    if not is_template(text):
        return TemplateUse()
    return _template_use(text)


@functools.lru_cache(maxsize=4096)
def _template_use(text: str) -> TemplateUse:
    from jinja2 import TemplateSyntaxError, meta

    try:
        tree = _environment().parse(text)
        names = meta.find_undeclared_variables(tree)
        others = any(True for _ in meta.find_referenced_templates(tree))
    except TemplateSyntaxError as error:
        raise TemplateError(f"not a jinja2 template: {error.message} (line {error.lineno} of the text)") from None
    except (RecursionError, MemoryError, OverflowError):
        raise TemplateError("not a usable jinja2 template: too large or nested too deeply") from None
    if others:
        raise TemplateError("a reply cannot include, import or extend other templates")
    unknown = sorted(names.difference(CALL_NAMES))
    if unknown:
        raise TemplateError(
            f"a template does not know {unknown[0]!r}{hint(unknown[0], CALL_NAMES)} (it knows {', '.join(CALL_NAMES)})"
        )
    return TemplateUse("stdin" in names, _variables(tree) if "env" in names else frozenset())


@functools.cache
def _environment() -> Environment:
    from jinja2.sandbox import SandboxedEnvironment

    return SandboxedEnvironment()


def _variables(tree: Any) -> frozenset[str]:
    """The environment variables that a template names: `env.X`, `env['X']`, `'X' in env`."""
    from jinja2 import nodes

    found: dict[int, str] = {}
    for access in tree.find_all((nodes.Getattr, nodes.Getitem)):
        if _is_env(access.node):
            name = access.attr if isinstance(access, nodes.Getattr) else getattr(access.arg, "value", None)
            _add_variable(found, access.node, name)
    for comparison in tree.find_all(nodes.Compare):
        for operand in comparison.ops:
            if operand.op in ("in", "notin") and _is_env(operand.expr):
                _add_variable(found, operand.expr, getattr(comparison.expr, "value", None))
    called = any(_is_env(getattr(call.node, "node", None)) for call in tree.find_all(nodes.Call))
    if called or any(_is_env(node) and id(node) not in found for node in tree.find_all(nodes.Name)):
        raise TemplateError("which variable is asked for must be written out: env.NAME or env['NAME']")
    return frozenset(found.values())


def _add_variable(found: dict[int, str], node: Any, name: Any) -> None:
    if isinstance(name, str):
        if error := variable_error(name):
            raise TemplateError(error)
        found[id(node)] = name


def _is_env(node: Any) -> bool:
    return getattr(node, "name", None) == "env" and getattr(node, "ctx", None) == "load"


def template_findings(texts: Iterable[tuple[Location, str]], info: ValidationInfo | None = None) -> Iterator[Finding]:
    """Findings for each text, given with its place, that is no template. One that awaits a row is left for then."""
    for location, text in texts:
        if info is not None and awaits_row(text, info):
            continue
        try:
            template_use(text)
        except TemplateError as error:
            yield Finding(location, str(error))


def json_findings(value: Any, location: Location = ("json",)) -> Iterator[Finding]:
    """Findings for what JSON cannot carry: dates that YAML made of text, and halves of surrogate pairs."""
    if isinstance(value, str):
        if any("\ud800" <= char <= "\udfff" for char in value):
            yield Finding(location, "the text has half of a surrogate pair, which is no character")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from json_findings(item, (*location, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from json_findings(item, (*location, index))
    elif value is not None and not isinstance(value, bool | int | float):
        yield Finding(
            location, f"YAML reads {str(value)[:80]!r} as {type(value).__name__}, not as text; put it in quotes"
        )
