"""Which files of a tree are build products, caches and the like: the default list and an author's changes to it."""

from __future__ import annotations

import fnmatch
import functools
import re
from collections.abc import Callable, Iterable, Sequence

DEFAULT_IGNORE = (
    *(".venv", "venv", "ENV", "env", "virtualenv", ".git", ".svn", ".hg", "__pycache__", "*.pyc", "*.pyo", "*.pyd"),
    *(".pytest_cache", ".ruff_cache", "*.egg-info", ".eggs", "dist", "build", ".vscode", ".idea", "*.swp", "*.swo"),
    *("*~", ".DS_Store", "Thumbs.db", "node_modules", ".npm", "bower_components", ".coverage", "htmlcov", ".tox"),
    *(".nox", "*.so", "*.dylib", "*.dll", "cli_mocks"),
)


class IgnoreRules:
    """The default patterns and `patterns`; `!x` keeps what matches x. Matched against single path components."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        patterns = [pattern.rstrip("/") for pattern in patterns]
        self._dropped = matcher([*DEFAULT_IGNORE, *(pattern for pattern in patterns if not pattern.startswith("!"))])
        self._kept = matcher([pattern[1:] for pattern in patterns if pattern.startswith("!")])

    def ignores(self, name: str) -> bool:
        """Whether a component of a path is ignored."""
        return self._dropped(name) and not self._kept(name)


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A function that tells whether a name matches any of the shell patterns; case counts."""
    compiled = _compiled(tuple(patterns))
    return lambda name: compiled.match(name) is not None


@functools.lru_cache(64)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(fnmatch.translate, patterns)) or r"(?!)")
