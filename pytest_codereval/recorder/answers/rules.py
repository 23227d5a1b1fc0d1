"""Which rule answers a call: its facets of argv, and those of the circumstances of the call."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from ..argv import ArgvPattern, FlagTest, matches, pattern_of
from ..options import OptionTable
from ..texts import TextTest, text_test
from .call import StdinNeeded
from .guarded import guarded

Tests = tuple[tuple[str, TextTest], ...]


@dataclasses.dataclass(frozen=True)
class Facts:
    """What is known of a call. `stdin` is None until it was read."""

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    state: Mapping[str, Any]
    stdin: str | None


@dataclasses.dataclass(frozen=True)
class Match:
    """What a rule asks of a call; see `task.cli_models.CliMatch`."""

    pattern: ArgvPattern
    cwd: TextTest | None = None
    env: Tests = ()
    state: Tests = ()
    stdin: TextTest | None = None
    nth: int | None = None

    def holds(self, facts: Facts) -> bool:
        """Whether everything but `nth` holds.

        Raises StdinNeeded when it depends on what was not read yet, OutOfTime for a regular expression without end.
        """
        known = (facts.argv, facts.cwd, dict(facts.env), {key: _as_text(facts.state.get(key)) for key, _ in self.state})
        if not self._without_regex.holds_of(*known):
            return False
        if self._without_regex is not self and not guarded(Match.holds_of, self, *known):
            return False
        return self.stdin is None or self._stdin_holds(facts.stdin)

    def holds_of(
        self, argv: tuple[str, ...], cwd: str, env: Mapping[str, str], state: Mapping[str, str | None]
    ) -> bool:
        """Whether the facets hold that can be told without standard input."""
        return (
            (self.cwd is None or self.cwd.holds(cwd))
            and all(test.holds(env.get(name)) for name, test in self.env)
            and all(test.holds(state.get(key)) for key, test in self.state)
            and matches(self.pattern, argv)
        )

    def _stdin_holds(self, stdin: str | None) -> bool:
        if stdin is None:
            raise StdinNeeded
        assert self.stdin is not None
        text = stdin or None
        if self.stdin.predicate != "matches_regex" or text is None:
            return self.stdin.holds(text)
        return guarded(TextTest.holds, self.stdin, text[: self.stdin.limit])

    @functools.cached_property
    def _without_regex(self) -> Match:
        """The same with every regular expression taken for one that matches; this itself when it has none."""
        tests: list[FlagTest | TextTest] = [
            *self.pattern.flags,
            *(test for test in (self.cwd,) if test),
            *(t for _, t in self.env + self.state),
        ]
        if not any(test.predicate == "matches_regex" for test in tests):
            return self
        pattern = dataclasses.replace(
            self.pattern,
            flags=tuple(map(_flag_without_regex, self.pattern.flags)),
            value_flags=self.pattern.value_names,
        )
        return Match(
            pattern,
            None if self.cwd is None else _without_regex(self.cwd),
            tuple((name, _without_regex(test)) for name, test in self.env),
            tuple((key, _without_regex(test)) for key, test in self.state),
        )


def match_of(when: Any, options: OptionTable) -> Match:
    """Build it from a `CliMatch`. Raises re.error for a regular expression that does not compile."""
    return Match(
        pattern_of(when, options),
        None if when.cwd is None else text_test(when.cwd),
        tuple((name, text_test(test)) for name, test in (when.env or {}).items()),
        tuple((key, text_test(test)) for key, test in (when.state or {}).items()),
        None if when.stdin is None else text_test(when.stdin),
        when.nth,
    )


def _without_regex(test: TextTest) -> TextTest:
    return TextTest("present") if test.predicate == "matches_regex" else test


def _flag_without_regex(test: FlagTest) -> FlagTest:
    return FlagTest(test.names, "present") if test.predicate == "matches_regex" else test


def _as_text(value: object) -> str | None:
    """A value of the state as rules see it: text as it is, true and false in lower case, None as absent."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
