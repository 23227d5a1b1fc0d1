"""Expressions over tags: names joined by `and`, `or`, `not` and parentheses, as pytest's `-m` takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Set

from ..errors import CoderEvalError

TagTest = Callable[[Set[str]], bool]

_TOKEN = re.compile(r"\s*(?:(?P<paren>[()])|(?P<name>[\w:+\-./\\\[\]]+))")


def compile_tags(expression: str) -> TagTest:
    """Compile an expression to a test over a set of tags. Raises CoderEvalError with the column of the mistake."""
    parser = _Parser(expression)
    test = parser.alternatives()
    parser.expect_end()
    return test


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                column = len(text) - len(text[position:].lstrip())
                raise self._error(column, f"unexpected character {text[column]!r}")
            self._tokens.append((match.group().strip(), match.end() - len(match.group().strip())))
            position = match.end()
        self._tokens.append(("", len(text)))

    def alternatives(self) -> TagTest:
        tests = [self._conjunction()]
        while self._take("or"):
            tests.append(self._conjunction())
        return tests[0] if len(tests) == 1 else lambda tags: any(test(tags) for test in tests)

    def _conjunction(self) -> TagTest:
        tests = [self._negation()]
        while self._take("and"):
            tests.append(self._negation())
        return tests[0] if len(tests) == 1 else lambda tags: all(test(tags) for test in tests)

    def _negation(self) -> TagTest:
        if self._take("not"):
            negated = self._negation()
            return lambda tags: not negated(tags)
        if self._take("("):
            inner = self.alternatives()
            if not self._take(")"):
                raise self._error(self._tokens[0][1], "expected ')'")
            return inner
        word, column = self._tokens.pop(0) if len(self._tokens) > 1 else self._tokens[0]
        if word in ("", ")", "and", "or"):
            raise self._error(column, f"expected a tag, got {word!r}" if word else "expected a tag")
        return lambda tags: word in tags

    def expect_end(self) -> None:
        word, column = self._tokens[0]
        if word:
            raise self._error(column, f"unexpected {word!r}")

    def _take(self, word: str) -> bool:
        if self._tokens[0][0] != word:
            return False
        self._tokens.pop(0)
        return True

    def _error(self, column: int, message: str) -> CoderEvalError:
        return CoderEvalError(f"tag expression {self._text!r}, column {column + 1}: {message}")
