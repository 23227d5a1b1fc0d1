"""The one matcher of recorded command lines: how argv is parsed, and what a pattern asks of it.

The parsing is driven by declarations, never by guesses: a flag takes a value only when the pattern says so.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from .options import OptionTable
from .texts import Predicate, TextTest, text_test


@dataclasses.dataclass(frozen=True)
class FlagTest:
    """What is asked of one flag. `names` are all its names, without dashes; the rest is as in `TextTest`."""

    names: tuple[str, ...]
    predicate: Predicate
    values: tuple[str, ...] = ()
    regex_flags: int = 0

    @functools.cached_property
    def _text(self) -> TextTest:
        return TextTest(self.predicate, self.values, self.regex_flags, limit=None)

    @property
    def takes_value(self) -> bool:
        """Whether the predicate declares that the flag is followed by a value."""
        return self._text.asks_value

    def holds(self, given: Sequence[str] | None) -> bool:
        """Whether the values that the flag was given satisfy the predicate; None when the flag was not passed."""
        return self._text.holds(None) if given is None else any(map(self._text.holds, given))

    def __str__(self) -> str:
        return f"{' or '.join(map(_dashed, self.names))} {self._text}"


@dataclasses.dataclass(frozen=True)
class ArgvPattern:
    """What is asked of a command line; an empty facet asks nothing.

    `verbs` are the accepted spellings of the verb, each a chain of tokens; the chain must begin the arguments that are
    no flags. `positional` must follow the verb directly. Flags that nobody mentions are ignored. `options` are the
    flags that the tool declares; what they say of a flag beats what the pattern says.
    """

    verbs: tuple[tuple[str, ...], ...] = ()
    positional: tuple[str, ...] = ()
    flags: tuple[FlagTest, ...] = ()
    value_flags: frozenset[str] = frozenset()
    ignore_flags: frozenset[str] = frozenset()
    options: OptionTable = ()

    @functools.cached_property
    def value_names(self) -> frozenset[str]:
        """All flags that consume the next token, unless the tool declares otherwise."""
        return self.value_flags.union(*(test.names for test in self.flags if test.takes_value))

    @functools.cached_property
    def known_names(self) -> frozenset[str]:
        """All flags that are taken as a whole, also behind a single dash."""
        return self.ignore_flags.union(*(test.names for test in self.flags))

    def split(self, argv: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
        """`split_argv` with what this pattern declares."""
        return split_argv(argv, self.value_names, self.ignore_flags, self.known_names, self.options)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How a command line compares with a pattern.

    `closeness` orders those that do not match; higher is nearer. `touched` tells whether the words of the pattern are
    those of this command line at all: the first word of its verb is there or, where no verb is asked for, a positional
    argument or a flag.
    """

    matched: bool
    difference: str = ""
    closeness: tuple[int, int, int] = (0, 0, 0)
    touched: bool = False


def pattern_of(facets: Any, options: OptionTable = ()) -> ArgvPattern:
    """Build the pattern from a task model with the fields verb, verb_any_of, positional, flags, value_flags and
    ignore_flags. The last two count only for a tool that declares no `options`.

    Raises re.error for a regular expression that does not compile.
    """
    spellings = [facets.verb] if facets.verb else (facets.verb_any_of or [])
    return ArgvPattern(
        verbs=tuple(tuple(spelling.split()) for spelling in spellings),
        positional=tuple(facets.positional or ()),
        flags=tuple(flag_test(name, predicate, options) for name, predicate in (facets.flags or {}).items()),
        value_flags=frozenset() if options else frozenset(facets.value_flags or ()),
        ignore_flags=frozenset() if options else frozenset(facets.ignore_flags or ()),
        options=options,
    )


def flag_test(name: str, predicate: Any, options: OptionTable = ()) -> FlagTest:
    """Build the test of flag `name` from a model, or a mapping, with one of the predicates and perhaps aliases.

    A flag that `options` declare is tested under all its declared names.
    """
    fields: Mapping[str, Any] = predicate if isinstance(predicate, Mapping) else vars(predicate)
    declared = next((option.names for option in options if name in option.names), ())
    test = text_test(predicate)
    names = declared or (name, *(fields.get("aliases") or ()))
    return FlagTest(names, test.predicate, test.values, test.regex_flags)


def is_number(text: str) -> bool:
    """Whether `text` reads as a number, so that `-text` is an argument and no flag. `inf` and `nan` are numbers."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def split_argv(
    argv: Sequence[str],
    value_flags: Collection[str],
    ignore: Collection[str],
    known: Collection[str],
    options: OptionTable = (),
) -> tuple[list[str], dict[str, list[str]]]:
    """Split `argv` into the arguments that are no flags and the flags with all their values ("" for a switch).

    `value_flags` consume the next token whatever it looks like, `ignore` are dropped with their values, `known` are
    taken whole behind a single dash. All names are without dashes.

    A flag of `options` has as many values as it declares, each of them one value: the text behind `=` or behind its
    letter, then the next tokens whatever they look like; where they are too few it has those, or "". It is filed under
    its first name. Its letter is found anywhere in a cluster: with `o` declared to take one, `-xo FILE`, `-xoFILE` and,
    where `x` is declared as a switch, `-xo=FILE` are `x` and `o`.
    """
    return _Splitter(value_flags, ignore, known, options).split(argv)


class _Splitter:
    def __init__(
        self, value_flags: Collection[str], ignore: Collection[str], known: Collection[str], options: OptionTable
    ) -> None:
        self._first_names, self._arities = _declared(options)
        self._ignore = {self._first_names.get(name, name) for name in ignore}
        self._value_flags = set(value_flags).difference(self._arities)
        self._undeclared = {*value_flags, *ignore, *known}
        self._positional: list[str] = []
        self._flags: dict[str, list[str]] = {}

    def split(self, argv: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
        tokens = iter(argv)
        for token in tokens:
            if token == "--":
                self._positional.extend(tokens)
                break
            if token == "-" or not token.startswith("-"):
                self._positional.append(token)
            else:
                self._flag(token, tokens)
        return self._positional, self._flags

    def _flag(self, token: str, tokens: Iterator[str]) -> None:
        name = token.lstrip("-")
        head, equals, value = name.partition("=")
        if head in self._arities:
            self._option(head, value if equals else None, tokens)
        elif not token.startswith("--") and self._cluster_with_value(head, bool(equals)):
            self._cluster(name, tokens)
        elif equals:
            self._add(head, [value])
        elif name in self._value_flags:
            self._add(name, [next(tokens, "")])
        elif name in self._undeclared:
            self._add(name, [""])
        elif is_number(name):
            self._positional.append(token)
        elif token.startswith("--") or len(name) < 2:
            self._add(name, [""])
        elif name[0] in self._value_flags:
            self._add(name[0], [name[1:]])
        else:
            for switch in name:
                self._add(switch, [""])

    def _cluster_with_value(self, name: str, all_declared: bool) -> bool:
        """Whether `name`, behind a single dash, is a cluster with the letter of an option that takes a value."""
        if not self._arities or name in self._undeclared or name[:1] in self._value_flags or is_number(name):
            return False
        for letter in name:
            if self._arities.get(letter):
                return True
            if all_declared and letter not in self._arities:
                return False
        return False

    def _cluster(self, letters: str, tokens: Iterator[str]) -> None:
        for end, letter in enumerate(letters, start=1):
            if self._arities.get(letter):
                rest = letters[end:]
                self._option(letter, rest.removeprefix("=") if rest else None, tokens)
                return
            self._add(letter, [""])

    def _option(self, name: str, attached: str | None, tokens: Iterator[str]) -> None:
        values = [] if attached is None else [attached]
        values += itertools.islice(tokens, max(self._arities[name] - len(values), 0))
        self._add(name, values or [""])

    def _add(self, name: str, values: list[str]) -> None:
        name = self._first_names.get(name, name)
        if name not in self._ignore:
            self._flags.setdefault(name, []).extend(values)


@functools.lru_cache(maxsize=256)
def _declared(options: OptionTable) -> tuple[Mapping[str, str], Mapping[str, int]]:
    """The first name and the arity of the option with each name."""
    names = {name: option for option in options for name in option.names}
    return (
        {name: option.names[0] for name, option in names.items()},
        {name: option.arity for name, option in names.items()},
    )


def matches(pattern: ArgvPattern, argv: Sequence[str]) -> bool:
    """Whether `argv` satisfies every facet of `pattern`."""
    return compare(pattern, argv).matched


def compare(pattern: ArgvPattern, argv: Sequence[str]) -> Comparison:
    """Compare `argv` with `pattern`, facet by facet: verb, then what follows it, then each flag."""
    positional, flags = pattern.split(argv)
    verb = next((verb for verb in pattern.verbs if tuple(positional[: len(verb)]) == verb), None)
    if pattern.verbs and verb is None:
        return _other_verb(pattern, positional)
    rest = positional[len(verb or ()) :]
    agreeing = _common_prefix(pattern.positional, rest)
    unmet = [test for test in pattern.flags if not test.holds(_values_of(test, flags))]
    touched = bool(verb or agreeing or any(_meets(test, flags) for test in pattern.flags))
    closeness = (len(verb or ()), agreeing, -len(unmet))
    if agreeing < len(pattern.positional):
        wanted = pattern.positional[agreeing]
        got = repr(rest[agreeing]) if agreeing < len(rest) else "nothing"
        return Comparison(False, f"positional {agreeing + 1}: expected {wanted!r}, got {got}", closeness, touched)
    if unmet:
        return Comparison(False, _unmet_flag(unmet[0], flags), closeness, touched)
    return Comparison(True, "", closeness, touched)


def _other_verb(pattern: ArgvPattern, positional: Sequence[str]) -> Comparison:
    nearest = max(pattern.verbs, key=lambda verb: _common_prefix(verb, positional))
    common = _common_prefix(nearest, positional)
    wanted = " or ".join(repr(" ".join(verb)) for verb in pattern.verbs)
    got = repr(" ".join(positional[: len(nearest)])) if positional else "no argument but flags"
    return Comparison(False, f"verb: expected {wanted}, got {got}", (common - 1, 0, 0), common > 0)


def _meets(test: FlagTest, flags: Mapping[str, list[str]]) -> bool:
    """Whether the flag was passed as asked for, or although it must not be."""
    given = _values_of(test, flags)
    return given is not None and (test.predicate == "absent" or test.holds(given))


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
