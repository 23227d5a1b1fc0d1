"""Matching calls of command-line tools: what a criterion asks of them, and which one picks a recorded tool's answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ValidationInfo, model_validator

from .base import Finding, StrictModel, problem, raise_findings
from .criterion import Criterion
from .fields import ROW_MARK, AtLeastOne, Count, Integer, NonBlank, WorkspacePath, awaits_row, regex_error

DEFAULT_LOG = "cli_mocks/calls.jsonl"
_PREDICATES = ("equals", "contains", "matches_regex", "any_of", "absent", "present")


class FlagPredicate(StrictModel):
    """One condition on the values of a flag. Text alone means `equals`."""

    equals: str | None = None
    contains: str | None = None
    matches_regex: str | None = None
    flags: Integer = 0
    any_of: Annotated[tuple[str, ...], AtLeastOne] | None = None
    absent: Literal[True] | None = None
    present: Literal[True] | None = None
    aliases: tuple[NonBlank, ...] = ()

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> FlagPredicate:
        raise_findings("FlagPredicate", self._findings(info), self.__dict__)
        return self

    def _findings(self, info: ValidationInfo) -> list[Finding]:
        used = [name for name in _PREDICATES if getattr(self, name) is not None]
        if len(used) != 1:
            given = f"found {' and '.join(used)}" if used else "found none"
            return [Finding((), f"expected exactly one of {', '.join(_PREDICATES)}; {given}")]
        if self.matches_regex is None:
            return [Finding(("flags",), "flags belong to matches_regex")] if self.flags else []
        if not awaits_row(self.matches_regex, info) and (error := regex_error(self.matches_regex, self.flags)):
            return [Finding(("flags",) if error.startswith("flags") else ("matches_regex",), error)]
        return []

    @property
    def takes_value(self) -> bool:
        """Whether the flag consumes the next token when it is parsed."""
        return self.absent is None and self.present is None


def _predicate(value: Any) -> Any:
    if isinstance(value, str):
        return {"equals": value}
    if isinstance(value, Mapping | FlagPredicate):
        return value
    raise problem("expected text (put numbers and true/false in quotes) or a mapping with one predicate")


Flags = dict[str, Annotated[FlagPredicate, BeforeValidator(_predicate)]]


class CliFacets(StrictModel):
    """What a call must have; all facets that are given must hold."""

    verb: str | None = None
    verb_any_of: tuple[str, ...] | None = None
    positional: tuple[str, ...] | None = None
    flags: Flags | None = None
    value_flags: tuple[str, ...] = ("output",)
    ignore_flags: tuple[str, ...] = ()

    @property
    def verbs(self) -> tuple[tuple[str, ...], ...]:
        """The alternative verbs, each as its tokens; empty when any will do."""
        spellings = (self.verb,) if self.verb is not None else self.verb_any_of or ()
        return tuple(tuple(spelling.split()) for spelling in spellings)

    def facet_findings(self) -> list[Finding]:
        """What is wrong with the facets taken together."""
        return [*self._verb_findings(), *self._flag_findings()]

    def _verb_findings(self) -> list[Finding]:
        if self.verb is not None and self.verb_any_of is not None:
            return [Finding(("verb_any_of",), "verb and verb_any_of exclude each other")]
        if self.verb_any_of is not None and not self.verb_any_of:
            return [Finding(("verb_any_of",), "expected at least one verb")]
        if self.positional is not None and not self.positional:
            return [Finding(("positional",), "an empty list asks for nothing; leave the key out")]
        places: list[tuple[str | int, ...]] = (
            [("verb",)] if self.verb is not None else [("verb_any_of", i) for i in range(len(self.verbs))]
        )
        found = [
            Finding(place, error)
            for place, verb in zip(places, self.verbs, strict=True)
            if (error := _verb_error(verb))
        ]
        return found or _shadowed_verbs(self.verbs)

    def _flag_findings(self) -> list[Finding]:
        found = []
        owner: dict[str, str] = {}
        for key, predicate in (self.flags or {}).items():
            if key.startswith("-") or not key.strip():
                found.append(Finding(("flags", key), "expected the flag's name without dashes"))
            if key in predicate.aliases:
                found.append(Finding(("flags", key, "aliases"), f"{key!r} is its own alias"))
                continue
            for name in (key, *predicate.aliases):
                if name in self.ignore_flags:
                    found.append(
                        Finding(("flags", key), f"{name!r} stands in ignore_flags, so its value is never looked at")
                    )
                if owner.setdefault(name, key) != key:
                    found.append(Finding(("flags", key), f"{name!r} is claimed by {owner[name]!r} too"))
        return found


def _verb_error(verb: tuple[str, ...]) -> str | None:
    if not verb:
        return "the verb is blank"
    for token in verb:
        if ROW_MARK not in token and token.startswith("-") and token != "-" and not _is_number(token):
            return f"{token!r} is a flag; a verb is made of the words before and between flags"
    return None


def _is_number(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def _shadowed_verbs(verbs: tuple[tuple[str, ...], ...]) -> list[Finding]:
    found = []
    for index, verb in enumerate(verbs):
        for other_index, other in enumerate(verbs):
            longer = verb[: len(other)] == other
            if other_index != index and longer and (verb != other or other_index < index):
                kind = "the same as" if verb == other else "already covered by"
                found.append(Finding(("verb_any_of", index), f"{' '.join(verb)!r} is {kind} {' '.join(other)!r}"))
                break
    return found


class CliCalled(Criterion, CliFacets):
    """A recorded tool was called as asked, between `min_count` and `max_count` times."""

    type: Literal["cli_called"] = "cli_called"
    log: WorkspacePath = DEFAULT_LOG
    tool: str | None = None
    ignore_flags: tuple[str, ...] = ("output",)
    min_count: Count = 1
    max_count: Count | None = None

    def findings(self) -> tuple[Finding, ...]:
        found = self.facet_findings()
        if self.tool == "":
            found.append(Finding(("tool",), "the tool's name is empty"))
        if not (self.verb or self.verb_any_of or self.positional or self.flags or self.tool) and not found:
            found.append(Finding((), "expected at least one of verb, verb_any_of, positional, flags, tool"))
        if self.max_count is None and self.min_count == 0:
            found.append(Finding(("min_count",), "min_count 0 without max_count can never fail"))
        elif self.max_count is not None and self.max_count < self.min_count:
            found.append(Finding(("max_count",), f"expected at least min_count ({self.min_count})"))
        return tuple(found)


class CliMatch(CliFacets):
    """The calls that a response answers."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_text(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise problem(f"expected a mapping, for instance {{verb: {value[:60]!r}}}")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        found = self.facet_findings()
        if not (self.verb or self.verb_any_of or self.positional or self.flags) and not found:
            found.append(Finding((), "expected at least one of verb, verb_any_of, positional, flags"))
        raise_findings("CliMatch", found, self.__dict__)
        return self

    def parsing(self) -> tuple[frozenset[str], frozenset[str]]:
        """What decides how argv is cut into flags and positionals: value-bearing and ignored names."""
        bearing = set(self.value_flags)
        for key, predicate in (self.flags or {}).items():
            if predicate.takes_value:
                bearing |= {key, *predicate.aliases}
        return frozenset(bearing), frozenset(self.ignore_flags)

    @property
    def verb_only(self) -> bool:
        return bool(self.verbs) and not self.positional and not self.flags


def unreachable(matches: Iterable[CliMatch]) -> list[tuple[int, int]]:
    """Return pairs (rule, earlier rule) where the earlier one answers every call that the rule could."""
    found = []
    earlier: list[CliMatch] = []
    for index, match in enumerate(matches):
        blocking = [_covering(verb, match, earlier) for verb in match.verbs]
        same = next((position for position, other in enumerate(earlier) if other == match), None)
        if same is not None:
            found.append((index, same))
        elif blocking and all(position is not None for position in blocking):
            found.append((index, max(position for position in blocking if position is not None)))
        earlier.append(match)
    return found


def _covering(verb: tuple[str, ...], match: CliMatch, earlier: list[CliMatch]) -> int | None:
    for position, other in enumerate(earlier):
        same_parsing = other.verb_only and other.parsing() == match.parsing()
        if same_parsing and any(verb[: len(prefix)] == prefix for prefix in other.verbs):
            return position
    return None
