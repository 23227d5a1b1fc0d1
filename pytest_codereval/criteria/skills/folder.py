"""The names and paths under which an agent comes to a skill."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator

PARENT = "skills"
LONGEST_PATTERN = 200

_PARENT_END = re.compile(rf"(?<![\w-]){PARENT}$")
_RENAMED = re.compile(r"[^A-Za-z0-9_-]")
_GLOB = re.compile(r"[*?\[]")
_INNER_START = re.compile(r"[=:,@]")
_PATH_IN_TEXT = re.compile(r"[^\s'\"`()<>|;,=]+")


def is_called(name: str, skill: str) -> bool:
    """Whether the Skill tool's `name` is the skill of the folder `skill`.

    The name of a plugin may stand before it, and each character that is no ASCII letter, digit, `-` or `_` may have
    become `-`.
    """
    given = name.strip().removeprefix("/")
    return skill in (given, given.rpartition(":")[2]) or given.rpartition(":")[2] == _RENAMED.sub("-", skill)


def joined(folder: str, path: str) -> str:
    """`path` as seen from `folder`, without `.`, `..` and doubled slashes. A slash at its end stays."""
    if folder and not path.startswith(("/", "~", "$")):
        path = f"{folder}/{path}"
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and parts and parts[-1] not in ("", ".."):
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    root = "/" if path.startswith("/") else ""
    end = "/" if path.endswith(("/", "/.")) and parts else ""
    return f"{root}{'/'.join(parts)}{end}"


class SkillFolder:
    """Tells which paths lie in `skills/NAME/`. A pattern of the shell that may match lies there."""

    def __init__(self, name: str) -> None:
        self._name = name

    def has_below(self, path: str, folder: str = "") -> bool:
        """Whether `path`, or what stands in it behind `=`, `:`, `,` or `@`, lies below the skill's folder."""
        return any(self._depth(joined(folder, part)) > 0 for part in _parts(path))

    def has(self, path: str, folder: str = "") -> bool:
        """As `has_below`, or is the skill's folder itself."""
        return any(self._depth(joined(folder, part)) >= 0 for part in _parts(path))

    def may_be_under(self, path: str, folder: str = "") -> bool:
        """Whether the skill lies under `path`: its own folder, a part of it, or the folder of skills."""
        whole = joined(folder, path)
        return self._depth(whole) >= 0 or _PARENT_END.search(whole.rstrip("/")) is not None

    def is_named_in(self, text: str) -> bool:
        """Whether a text, such as the code of an interpreter, holds a path below the skill's folder."""
        return any(self.has_below(match.group()) for match in _PATH_IN_TEXT.finditer(text))

    def _depth(self, path: str) -> int:
        """How deep below the skill's folder a path goes; 0 is the folder without a slash, -1 elsewhere."""
        parts = path.split("/")
        for at in range(len(parts) - 1):
            if self._is_folder(parts[at], parts[at + 1]):
                return len(parts) - at - 2
        return -1

    def _is_folder(self, parent: str, name: str) -> bool:
        literal = _PARENT_END.search(parent) is not None
        if name == self._name:
            return literal or _matches(parent, PARENT)
        return literal and _matches(name, self._name)


def _parts(path: str) -> Iterator[str]:
    if not path.startswith("-"):
        yield path
    inner = [match.end() for match in _INNER_START.finditer(path)][:20]
    yield from (path[at:] for at in inner)


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern of the shell matches; without `*`, `?` or `[` it is none."""
    if len(pattern) > LONGEST_PATTERN or not _GLOB.search(pattern):
        return False
    return fnmatch.fnmatchcase(name, pattern)
