"""The nearest valid name, for messages about names that do not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """Return the valid name that is most like `name`, or None when none is alike."""
    folded = {candidate.casefold(): candidate for candidate in valid}
    if name.casefold() in folded:
        return folded[name.casefold()]
    matches = difflib.get_close_matches(name.casefold()[:100], folded, n=1, cutoff=0.6)
    return folded[matches[0]] if matches else None


def hint(name: str, valid: Iterable[str]) -> str:
    """Return `; did you mean 'x'?`, or an empty text when no valid name is alike."""
    match = nearest(name, valid)
    return f"; did you mean {match!r}?" if match is not None and match != name else ""
