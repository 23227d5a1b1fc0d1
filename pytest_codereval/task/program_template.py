"""Texts of a `command` agent with `{placeholders}`: what they may ask for, and what is put in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from .nearest import hint

PLACEHOLDERS = (
    *("prompt", "prompt_file", "model", "workspace", "home", "skills_dir", "base_url", "api_key", "session"),
)
ONLY_IN_ARGV = frozenset({"prompt", "prompt_file"})
OF_THE_API = frozenset({"base_url", "api_key"})

_MARK = re.compile(r"\{\{(?P<plain>[a-z_]+)\}\}|(?<!\$)\{(?P<name>[a-z_]+)\}")


def placeholders_in(value: Any) -> set[str]:
    """The names in braces in a text, or in all texts of nested lists and mappings. `{{x}}` and `${x}` are none."""
    if isinstance(value, str):
        return {match["name"] for match in _MARK.finditer(value) if match["name"]}
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    return set().union(*map(placeholders_in, value)) if isinstance(value, list | tuple) else set()


def placeholder_error(name: str) -> str | None:
    """Why there can be no `{name}`, or None when there can."""
    if name in PLACEHOLDERS:
        return None
    known = " ".join(f"{{{known}}}" for known in PLACEHOLDERS)
    escape = f"write {{{{{name}}}}} for the text itself"
    return f"there is no {{{name}}}{hint(name, PLACEHOLDERS)} (known: {known}; {escape})"


def filled(value: Any, get: Callable[[str], str]) -> Any:
    """`value` with the placeholders in all its texts replaced by what `get` returns for their names."""
    if isinstance(value, str):
        return _MARK.sub(lambda match: f"{{{match['plain']}}}" if match["plain"] else get(match["name"]), value)
    if isinstance(value, Mapping):
        return {filled(key, get): filled(item, get) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [filled(item, get) for item in value]
    return value
