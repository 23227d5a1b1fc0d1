"""Paths of files in a layer are relative to the layer's own file: they are rewritten for the folder of a task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import Location

_PATHS = frozenset(
    {
        ("agent", "plugins", "*", "path"),
        ("agent", "system_prompt_file"),
        ("agent", "claude_settings"),
        ("agent", "record"),
        ("sandbox", "template_sources", "*", "path"),
        ("sandbox", "docker", "dockerfile_path"),
        ("sandbox", "docker", "extra_mounts", "*"),
        ("sandbox", "docker", "extra_mounts", "*", "source"),
        ("initial_prompt_file",),
    }
)
_REPLY_FILES = frozenset(
    {
        *("content_file", "copy", "copy_from", "stdout_file", "stderr_file", "json_file"),
        *("responses_from", "record_to", "replay_from"),
    }
)
"""Keys below `sandbox.record_cli` that name files."""

_ABSOLUTE = ("/", "~", "$", "\\")


def relocated(value: Any, place: Location, source: Path, target: Path) -> Any:
    """The value at `place` of a task, its relative paths, which start in the folder `source`, starting in `target`.

    The url of a repository is such a path where it begins with `./` or `../`.
    """
    start = os.path.relpath(source.absolute(), target.absolute())
    return value if start == "." else _rewritten(value, place, start)


def _rewritten(value: Any, place: Location, start: str) -> Any:
    if isinstance(value, Mapping):
        return {key: _rewritten(item, (*place, key), start) for key, item in value.items()}
    if isinstance(value, list):
        return [_rewritten(item, (*place, "*"), start) for item in value]
    if not isinstance(value, str):
        return value
    if place in _PATHS or _is_reply_file(place):
        return moved(value, start)
    if _is_handler(place) and value.rpartition(":")[0].endswith(".py"):
        return moved(value, start)
    if place == ("sandbox", "template_sources", "*", "url") and value.startswith(("./", "../")):
        return moved(value, start)
    return value


def moved(path: str, start: str) -> str:
    """A relative path with `start` in front; one that is absolute, or begins with `~` or a variable, as it is."""
    if path.startswith(_ABSOLUTE) or path[1:2] == ":" or not path.strip():
        return path
    return f"{start}/{path.removeprefix('./')}"


def _is_reply_file(place: Location) -> bool:
    if place[:2] != ("sandbox", "record_cli"):
        return False
    return place[-1] in _REPLY_FILES or (place[-1] == "*" and place[-2] in _REPLY_FILES)


def _is_handler(place: Location) -> bool:
    return (place[:2] == ("sandbox", "record_cli") and place[-1] == "handler") or place == ("agent", "parser")
