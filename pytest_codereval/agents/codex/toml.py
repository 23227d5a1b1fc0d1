"""Values as TOML on one line, as Codex reads its settings."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping


def inline(value: object) -> str:
    """The text of a value. Raises ValueError for what TOML cannot say, such as null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{inline(str(key))} = {inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(inline, value)) + "]"
    raise ValueError(f"{'null' if value is None else type(value).__name__} cannot be written as TOML")


def document(settings: Mapping[str, object]) -> str:
    """A file with one line for each of the settings."""
    return "".join(f"{inline(key)} = {inline(value)}\n" for key, value in settings.items())
