"""Searching for an author's regular expression."""

from __future__ import annotations

import functools
import re
import warnings


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Return the compiled pattern; Python's warnings about its spelling are the loader's business, not a verdict's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.compile(pattern, flags)


def search(pattern: str, text: str, flags: int = 0) -> re.Match[str] | None:
    """Return the first match of `pattern` anywhere in `text`."""
    return compiled(pattern, flags).search(text)
