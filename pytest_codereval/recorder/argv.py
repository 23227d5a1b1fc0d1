"""The one matcher of recorded command lines: how argv is parsed, and what a pattern asks of it.

The parsing is driven by declarations, never by guesses: a flag takes a value only when the pattern says so.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

Predicate = Literal["equals", "contains", "matches_regex", "any_of", "absent", "present"]

_WITH_ONE_TEXT: tuple[Predicate, ...] = ("equals", "contains", "matches_regex")


@dataclasses.dataclass(frozen=True)
class FlagTest:
    """What is asked of one flag. `names` are its name and its aliases, without dashes.

    `values` holds the one text of `equals`, `contains` and `matches_regex`, the alternatives of `any_of`, and nothing
    for `absent` and `present`. `regex_flags` are those of `re`.
    """

    names: tuple[str, ...]
    predicate: Predicate
    values: tuple[str, ...] = ()
    regex_flags: int = 0

    @property
    def takes_value(self) -> bool:
        """Whether the flag is declared to be followed by a value."""
        return self.predicate not in ("absent", "present")

    def holds(self, given: Sequence[str] | None) -> bool:
        """Whether the values that the flag was given satisfy the predicate; None when the flag was not passed."""
        if self.predicate == "absent":
            return given is None
        if given is None:
            return False
        if self.predicate == "present":
            return True
        return any(self._accepts(value) for value in given)

    def _accepts(self, value: str) -> bool:
        if self.predicate == "contains":
            return self.values[0] in value
        if self.predicate == "matches_regex":
            return re.search(self.values[0], value, self.regex_flags) is not None
        return value in self.values

    def __str__(self) -> str:
        name = " or ".join(_dashed(name) for name in self.names)
        if not self.takes_value:
            return f"{name} {self.predicate}"
        wanted = repr(self.values[0]) if self.predicate != "any_of" else repr(list(self.values))
        return f"{name} {self.predicate} {wanted}"


@dataclasses.dataclass(frozen=True)
class ArgvPattern:
    """What is asked of a command line; an empty facet asks nothing.

    `verbs` are the accepted spellings of the verb, each a chain of tokens; the chain must begin the arguments that are
    no flags. `positional` must follow the verb directly. Flags that nobody mentions are ignored.
    """

    verbs: tuple[tuple[str, ...], ...] = ()
    positional: tuple[str, ...] = ()
    flags: tuple[FlagTest, ...] = ()
    value_flags: frozenset[str] = frozenset()
    ignore_flags: frozenset[str] = frozenset()

    @functools.cached_property
    def value_names(self) -> frozenset[str]:
        """All flags that consume the next token."""
        return self.value_flags.union(*(test.names for test in self.flags if test.takes_value))

    @functools.cached_property
    def known_names(self) -> frozenset[str]:
        """All flags that are taken as a whole, also behind a single dash."""
        return self.ignore_flags.union(*(test.names for test in self.flags))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a command line compares with a pattern. `closeness` orders those that do not match; higher is nearer."""

    matched: bool
    difference: str = ""
    closeness: tuple[int, int, int] = (0, 0, 0)


def pattern_of(facets: Any) -> ArgvPattern:
    """Build the pattern from a task model with the fields verb, verb_any_of, positional, flags, value_flags and
    ignore_flags. Raises re.error for a regular expression that does not compile.
    """
    spellings = [facets.verb] if facets.verb else (facets.verb_any_of or [])
    return ArgvPattern(
        verbs=tuple(tuple(spelling.split()) for spelling in spellings),
        positional=tuple(facets.positional or ()),
        flags=tuple(flag_test(name, predicate) for name, predicate in (facets.flags or {}).items()),
        value_flags=frozenset(facets.value_flags or ()),
        ignore_flags=frozenset(facets.ignore_flags or ()),
    )


def flag_test(name: str, predicate: Any) -> FlagTest:
    """Build the test of flag `name` from a model, or a mapping, with one of the predicates and perhaps aliases."""
    fields: Mapping[str, Any] = predicate if isinstance(predicate, Mapping) else vars(predicate)
    names = (name, *(fields.get("aliases") or ()))
    for kind in _WITH_ONE_TEXT:
        if fields.get(kind) is not None:
            regex_flags = int(fields.get("flags") or 0)
            if kind == "matches_regex":
                re.compile(fields[kind], regex_flags)
            return FlagTest(names, kind, (fields[kind],), regex_flags)
    if fields.get("any_of") is not None:
        return FlagTest(names, "any_of", tuple(fields["any_of"]))
    return FlagTest(names, "absent" if fields.get("absent") else "present")


def is_number(text: str) -> bool:
    """Whether `text` reads as a number, so that `-text` is an argument and no flag. `inf` and `nan` are numbers."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def split_argv(
    argv: Sequence[str], value_flags: Collection[str], ignore: Collection[str], known: Collection[str]
) -> tuple[list[str], dict[str, list[str]]]:
    """Split `argv` into the arguments that are no flags and the flags with all their values ("" for a switch).

    `value_flags` consume the next token whatever it looks like, `ignore` are dropped with their values, `known` are
    taken whole behind a single dash. All names are without dashes.
    """
    positional: list[str] = []
    flags: dict[str, list[str]] = {}
    declared = {*value_flags, *ignore, *known}

    def add(name: str, value: str) -> None:
        if name not in ignore:
            flags.setdefault(name, []).append(value)

    tokens = iter(argv)
    for token in tokens:
        if token == "--":
            positional.extend(tokens)
            break
        name = token.lstrip("-")
        if token == "-" or not token.startswith("-"):
            positional.append(token)
        elif "=" in name:
            add(*name.split("=", 1))
        elif name in value_flags:
            add(name, next(tokens, ""))
        elif name in declared:
            add(name, "")
        elif is_number(name):
            positional.append(token)
        elif token.startswith("--") or len(name) < 2:
            add(name, "")
        elif name[0] in value_flags:
            add(name[0], name[1:])
        else:
            for switch in name:
                add(switch, "")
    return positional, flags


def matches(pattern: ArgvPattern, argv: Sequence[str]) -> bool:
    """Whether `argv` satisfies every facet of `pattern`."""
    return compare(pattern, argv).matched


def compare(pattern: ArgvPattern, argv: Sequence[str]) -> Comparison:
    """Compare `argv` with `pattern`, facet by facet: verb, then what follows it, then each flag."""
    positional, flags = split_argv(argv, pattern.value_names, pattern.ignore_flags, pattern.known_names)
    verb = next((verb for verb in pattern.verbs if tuple(positional[: len(verb)]) == verb), None)
    if pattern.verbs and verb is None:
        return _other_verb(pattern, positional)
    rest = positional[len(verb or ()) :]
    agreeing = _common_prefix(pattern.positional, rest)
    unmet = [test for test in pattern.flags if not test.holds(_values_of(test, flags))]
    closeness = (len(verb or ()), agreeing, -len(unmet))
    if agreeing < len(pattern.positional):
        wanted = pattern.positional[agreeing]
        got = repr(rest[agreeing]) if agreeing < len(rest) else "nothing"
        return Comparison(False, f"positional {agreeing + 1}: expected {wanted!r}, got {got}", closeness)
    if unmet:
        return Comparison(False, _unmet_flag(unmet[0], flags), closeness)
    return Comparison(True, closeness=closeness)


def _other_verb(pattern: ArgvPattern, positional: Sequence[str]) -> Comparison:
    nearest = max(pattern.verbs, key=lambda verb: _common_prefix(verb, positional))
    wanted = " or ".join(repr(" ".join(verb)) for verb in pattern.verbs)
    got = repr(" ".join(positional[: len(nearest)])) if positional else "no argument but flags"
    return Comparison(False, f"verb: expected {wanted}, got {got}", (_common_prefix(nearest, positional) - 1, 0, 0))


def _common_prefix(wanted: Sequence[str], got: Sequence[str]) -> int:
    return next((i for i, (a, b) in enumerate(zip(wanted, got, strict=False)) if a != b), min(len(wanted), len(got)))


def _values_of(test: FlagTest, flags: Mapping[str, list[str]]) -> list[str] | None:
    given = [value for name in test.names for value in flags.get(name, ())]
    return given or None


def _unmet_flag(test: FlagTest, flags: Mapping[str, list[str]]) -> str:
    given = _values_of(test, flags)
    if given is None:
        return f"flag {test}: it was not passed"
    if test.predicate == "absent":
        return f"flag {test}: it was passed"
    return f"flag {test}: got {', '.join(map(repr, given))}"


def _dashed(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name}"
