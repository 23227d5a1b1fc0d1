"""The one matcher of single texts: what is asked of a flag's value, of stdin, of a directory, of a variable."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Literal

Predicate = Literal["equals", "contains", "matches_regex", "any_of", "absent", "present"]

REGEX_LIMIT = 64 * 1024
"""Characters of a text that a regular expression sees unless its user bounds the time in another way."""

_WITH_ONE_TEXT: tuple[Predicate, ...] = ("equals", "contains", "matches_regex")


@dataclasses.dataclass(frozen=True)
class TextTest:
    """What is asked of a text that may be missing.

    `values` holds the one text of `equals`, `contains` and `matches_regex`, the alternatives of `any_of`, and nothing
    for `absent` and `present`. `regex_flags` are those of `re`. A regular expression sees the first `limit` characters
    of the text, all of them where it is None.
    """

    predicate: Predicate
    values: tuple[str, ...] = ()
    regex_flags: int = 0
    limit: int | None = REGEX_LIMIT

    @property
    def asks_value(self) -> bool:
        """Whether the text itself matters, and not only whether it is there."""
        return self.predicate not in ("absent", "present")

    def holds(self, text: str | None) -> bool:
        """Whether `text` is as asked for. None is a text that is not there: only `absent` holds of it."""
        if text is None or not self.asks_value:
            return (text is None) == (self.predicate == "absent")
        if self.predicate == "contains":
            return self.values[0] in text
        if self.predicate == "matches_regex":
            return re.search(self.values[0], text[: self.limit], self.regex_flags) is not None
        return text in self.values

    def __str__(self) -> str:
        if not self.asks_value:
            return self.predicate
        wanted = list(self.values) if self.predicate == "any_of" else self.values[0]
        return f"{self.predicate} {wanted!r}"


def text_test(predicate: Any, limit: int | None = REGEX_LIMIT) -> TextTest:
    """Build the test from a text (`equals`), or from a model or mapping with one of the predicates.

    Raises re.error for a regular expression that does not compile.
    """
    if isinstance(predicate, str):
        return TextTest("equals", (predicate,), limit=limit)
    fields: Mapping[str, Any] = predicate if isinstance(predicate, Mapping) else vars(predicate)
    for kind in _WITH_ONE_TEXT:
        if fields.get(kind) is not None:
            regex_flags = int(fields.get("flags") or 0)
            if kind == "matches_regex":
                re.compile(fields[kind], regex_flags)
            return TextTest(kind, (fields[kind],), regex_flags, limit)
    if fields.get("any_of") is not None:
        return TextTest("any_of", tuple(fields["any_of"]), limit=limit)
    return TextTest("absent" if fields.get("absent") else "present", limit=limit)
