"""Places that the agent must not be told: the task's folder, its reference, the checkout."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from .host_path import lies_in

_TOKENS = re.compile(r"""[\s:=,;'"()<>|&\[\]{}]+""")


class Withheld:
    """Places that no variable of the agent may name, as they were given and with links resolved."""

    def __init__(self, places: Iterable[Path]) -> None:
        absolute = [os.path.normpath(place.absolute()) for place in places]
        self._places = tuple(dict.fromkeys([*absolute, *map(os.path.realpath, absolute)]))

    def holds(self, path: str) -> bool:
        """Whether `path`, as given or with links resolved, is such a place or lies inside one."""
        forms = (os.path.normpath(path), os.path.realpath(path))
        return any(lies_in(form, place) for form in forms for place in self._places)

    def named_in(self, value: str) -> bool:
        """Whether a value contains the path of such a place or a path inside one."""
        if not self._places:
            return False
        for token in (*_TOKENS.split(value), value):
            start = token.find("/")
            if token.startswith("~"):
                token, start = _expanded(token), 0
            if start >= 0 and self.holds(re.sub("/+", "/", token[start:])):
                return True
        odd = [place for place in self._places if _TOKENS.search(place)]
        return any(re.search(re.escape(place) + r"(?![\w.-])", value) for place in odd)


def _expanded(path: str) -> str:
    try:
        return str(Path(path).expanduser())
    except RuntimeError:
        return path
