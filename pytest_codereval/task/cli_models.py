"""Matching calls of command-line tools: what a criterion asks of them, and which one picks a recorded tool's answer."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ValidationInfo, model_validator

from .base import Finding, Location, WholeModel, problem, raise_findings
from .criterion import Criterion, StopEarly
from .fields import ROW_MARK, AtLeastOne, Count, ExitStatus, NonBlank, PositiveInt, WorkspacePath
from .option_models import DeclaredFlags
from .predicates import FlagPredicate, Flags, TextPredicate
from .shell_variables import variable_error

__all__ = [
    "DEFAULT_LOG",
    "CliCalled",
    "CliFacets",
    "CliMatch",
    "CliPattern",
    "ExitStatuses",
    "FlagPredicate",
    "TextPredicate",
]

DEFAULT_LOG = "cli_mocks/calls.jsonl"
_FACETS = ("verb", "verb_any_of", "positional", "flags")
_PARSING = ("value_flags", "ignore_flags")


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else (value,)


ExitStatuses = Annotated[
    tuple[ExitStatus, ...], BeforeValidator(_as_list, json_schema_input_type=int | tuple[int, ...]), AtLeastOne
]
"""One exit status or a list of alternatives; always a tuple once loaded."""


class CliFacets(WholeModel):
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
        ignored = self.ignored_findings() if self._says("ignore_flags") else ()
        return [*self._verb_findings(), *self._flag_findings(), *ignored]

    def _says(self, name: str) -> bool:
        """Whether a key has another value than it would have without being there."""
        return bool(getattr(self, name) != type(self).model_fields[name].default)

    def ignored_findings(self) -> Iterator[Finding]:
        """The flags that are asked for and dropped before."""
        for key, predicate in (self.flags or {}).items():
            for name in (key, *predicate.aliases):
                if name in self.ignore_flags:
                    message = f"{name!r} stands in ignore_flags, so its value is never looked at"
                    yield Finding(("flags", key), message)

    def parsing_findings(self, tool: str = "the tool", advice: str = "") -> Iterator[Finding]:
        """What says how arguments are read, where the options of `tool` say it already; locations start here."""
        for name in _PARSING:
            if self._says(name):
                yield Finding((name,), f"{tool} declares its options, which say this{advice}")
        for key, predicate in (self.flags or {}).items():
            if predicate.aliases:
                place = ("flags", key, "aliases")
                yield Finding(place, f"{tool} declares its options, which name the aliases{advice}")

    def declared_findings(self, declared: DeclaredFlags) -> Iterator[Finding]:
        """What does not go with the options of the tool that this is about; locations start here."""
        yield from self.parsing_findings()
        for key in self.flags or {}:
            if error := declared.refusal(key):
                yield Finding(("flags", key), error)

    def verb_warnings(self, tool: str) -> Iterator[Finding]:
        """Verbs that begin with the name of the tool that this is about; locations start here."""
        for index, verb in enumerate(self.verbs):
            if verb[:1] == (tool,):
                place: Location = ("verb",) if self.verb is not None else ("verb_any_of", index)
                wanted = f"expected {' '.join(verb[1:])!r}" if verb[1:] else "leave it out"
                whole = " ".join((tool, *verb))
                yield Finding(place, f"a verb begins behind the tool's name; {wanted}, unless {whole!r} is meant")

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


class CallFacets(CliFacets):
    """The facets of one call, written as a mapping of their own."""

    stdin: TextPredicate | None = None
    cwd: TextPredicate | None = None

    @model_validator(mode="before")
    @classmethod
    def _expect_mapping(cls, value: Any) -> Any:
        return refuse_text(value)


class CliPattern(CallFacets):
    """One call of a `sequence`."""

    tool: str | None = None
    exit_code: ExitStatuses | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        found = [*self.facet_findings(), *_tool_findings(self.tool), *_directory_findings(self.cwd)]
        asked = (self.verbs, self.positional, self.flags, self.tool, self.exit_code, self.stdin, self.cwd)
        if not any(asked) and not found:
            found.append(Finding((), "expected at least one of verb, verb_any_of, positional, flags, tool, ..."))
        raise_findings(type(self).__name__, found, self.__dict__)
        return self


class CliCalled(Criterion, CliFacets):
    """A recorded tool was called as asked, between `min_count` and `max_count` times.

    With `sequence` it is counted how often its calls came in this order; `after` and `before` name other criteria of
    the task whose calls must have come before, or come after, the calls that count.
    """

    type: Literal["cli_called"] = "cli_called"
    log: WorkspacePath = DEFAULT_LOG
    tool: str | None = None
    ignore_flags: tuple[str, ...] = ("output",)
    exit_code: ExitStatuses | None = None
    stdin: TextPredicate | None = None
    cwd: TextPredicate | None = None
    after: NonBlank | None = None
    before: NonBlank | None = None
    sequence: Annotated[tuple[CliPattern, ...], AtLeastOne] | None = None
    min_count: Count = 1
    max_count: Count | None = None
    stop_early: StopEarly | None = None

    @model_validator(mode="after")
    def _check_ignored(self, info: ValidationInfo) -> Self:
        declared = info.context is not None and self.tool in info.context.get("declared", ())
        if not declared and not self._says("ignore_flags"):
            raise_findings(type(self).__name__, self.ignored_findings(), self.__dict__)
        return self

    def findings(self) -> tuple[Finding, ...]:
        found = [*self.facet_findings(), *_tool_findings(self.tool), *_directory_findings(self.cwd)]
        if self.sequence is not None:
            found.extend(self._sequence_findings(self.sequence))
        elif not (self.verbs or self.positional or self.flags or self.tool or self._recorded_facets()) and not found:
            message = "expected at least one of verb, verb_any_of, positional, flags, tool, exit_code, stdin, cwd, "
            found.append(Finding((), f"{message}sequence"))
        if self.log != DEFAULT_LOG:
            found.extend(self._mock_log_findings())
        if self.max_count is None and self.min_count == 0:
            found.append(Finding(("min_count",), "min_count 0 without max_count can never fail"))
        elif self.max_count is not None and self.max_count < self.min_count:
            found.append(Finding(("max_count",), f"expected at least min_count ({self.min_count})"))
        return tuple(found)

    def patterns(self) -> Iterator[tuple[Location, str | None, CliFacets]]:
        """Each pattern with its place in the criterion and the tool that it asks about, None for any."""
        if self.sequence is None:
            yield (), self.tool, self
        for index, pattern in enumerate(self.sequence or ()):
            yield ("sequence", index), pattern.tool or self.tool, pattern

    def stdin_tools(self) -> frozenset[str | None]:
        """The tools whose standard input is asked for; None among them stands for every tool."""
        return frozenset(tool for _, tool, pattern in self.patterns() if getattr(pattern, "stdin", None) is not None)

    def recorder_only(self) -> Iterator[Location]:
        """Where something is asked that only the recorder knows, and no log of a mock."""
        for place, _, pattern in self.patterns():
            yield from ((*place, name) for name in ("stdin", "cwd") if getattr(pattern, name, None) is not None)

    def _recorded_facets(self) -> bool:
        return self.exit_code is not None or self.stdin is not None or self.cwd is not None

    def _sequence_findings(self, sequence: tuple[CliPattern, ...]) -> Iterator[Finding]:
        for name in (*_FACETS, *_PARSING, "exit_code", "stdin", "cwd", "after", "before"):
            if self._says(name):
                yield Finding((name,), f"{name} and sequence exclude each other; put it into the patterns")
        for index, pattern in enumerate(sequence):
            if self.tool is not None and pattern.tool is not None and pattern.tool != self.tool:
                yield Finding(("sequence", index, "tool"), f"the criterion is about {self.tool!r} alone")

    def _mock_log_findings(self) -> Iterator[Finding]:
        for place in self.recorder_only():
            yield Finding(place, f"only the recorder knows the {place[-1]} of a call, not the log of a mock")


def refuse_text(value: Any) -> Any:
    """Refuse a text where facets are expected, and show what was meant."""
    if isinstance(value, str):
        raise problem(f"expected a mapping, for instance {{verb: {value[:60]!r}}}")
    return value


def _tool_findings(tool: str | None) -> list[Finding]:
    return [Finding(("tool",), "the tool's name is empty")] if tool == "" else []


def _directory_findings(predicate: TextPredicate | None) -> list[Finding]:
    if predicate is None:
        return []
    if predicate.absent or predicate.present:
        return [Finding(("cwd",), "every call has a directory; expected equals, contains, matches_regex or any_of")]
    for path in (predicate.equals, *(predicate.any_of or ())):
        normal = posixpath.normpath(path) if path is not None else None
        if path is not None and ROW_MARK not in path and path != normal:
            return [Finding(("cwd",), f"{path!r} is never a call's directory; expected {normal!r}")]
        if normal is not None and normal.split("/")[0] == "..":
            return [Finding(("cwd",), f"{path!r}: a directory outside the workspace is absolute")]
    return []


class CliMatch(CallFacets):
    """The calls that a response answers. `nth` counts, from 1, the calls that all other facets match."""

    env: dict[str, TextPredicate] | None = None
    state: dict[str, TextPredicate] | None = None
    nth: PositiveInt | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        found = [*self.facet_findings(), *_directory_findings(self.cwd), *self._variable_findings()]
        if not (self.verbs or self.positional or self.flags or self.circumstances) and not found:
            message = "expected at least one of verb, verb_any_of, positional, flags, stdin, cwd, env, state, nth"
            found.append(Finding((), message))
        raise_findings("CliMatch", found, self.__dict__)
        return self

    def _variable_findings(self) -> Iterator[Finding]:
        for name in ("env", "state"):
            if getattr(self, name) == {}:
                yield Finding((name,), "an empty mapping asks for nothing; leave the key out")
        for variable in self.env or {}:
            if error := variable_error(variable):
                yield Finding(("env", variable), error)

    @property
    def circumstances(self) -> bool:
        """Whether more than arguments is asked for."""
        return any(item is not None for item in (self.stdin, self.cwd, self.env, self.state, self.nth))

    def parsing(self, declared: Collection[str] = ()) -> tuple[frozenset[str], frozenset[str]]:
        """What decides how argv is cut into flags and positionals: value-bearing and ignored names.

        `declared` are the flags that the tool declares in its `options`; these are cut alike for all rules.
        """
        bearing = set() if declared else set(self.value_flags)
        for key, predicate in (self.flags or {}).items():
            if predicate.takes_value:
                bearing |= {key, *predicate.aliases}
        return frozenset(bearing.difference(declared)), frozenset(() if declared else self.ignore_flags)

    def chains(self) -> list[tuple[str, ...]]:
        """The words that the arguments which are no flags must begin with, alternatives."""
        return [(*verb, *(self.positional or ())) for verb in self.verbs or ((),)]
