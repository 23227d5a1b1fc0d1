"""What a statement may change in the shell that runs it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from .syntax import (
    AndOr,
    Arithmetic,
    Assignment,
    Block,
    Case,
    CountingFor,
    For,
    Function,
    Group,
    If,
    Literal,
    Negated,
    Opaque,
    Pipeline,
    Simple,
    Statement,
    Variable,
    While,
    Word,
)

_READERS = frozenset({"read", "mapfile", "readarray", "getopts"})
_NAMED_BY = {"printf": "-v", "wait": "-p"}
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly", "unset"})
_OPTION_SETTERS = frozenset({"set", "shift", "eval", ".", "source", "shopt"})
_TEXTS = frozenset({"eval", ".", "source"})
_IN_FRONT = frozenset({"command", "builtin", "time", "-p", "--"})
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclasses.dataclass(frozen=True)
class Writes:
    """Variables that a statement may change, and whether it may change options or positional parameters.

    `commands` are the names that it calls, of functions among others; `unclear` when it may change any variable.
    """

    names: frozenset[str]
    options: bool
    commands: frozenset[str]
    unclear: bool


def writes_of(statement: Statement) -> Writes:
    """Return what a statement may change, without what functions that it calls change."""
    names: set[str] = set()
    commands: set[str] = set()
    options = unclear = False
    waiting: list[Statement] = [statement]
    while waiting:
        found = waiting.pop()
        names.update(_names(found))
        waiting.extend(_inside(found))
        if isinstance(found, Simple) and found.words:
            called = _called(found)
            commands.update([called] if called is not None else [])
            options = options or found.words[0].source in _OPTION_SETTERS
            unclear = unclear or called is None or called in _TEXTS or _hides(found, called)
    return Writes(frozenset(names), options, frozenset(commands), unclear)


def _called(statement: Simple) -> str | None:
    """Return the name that a command calls, None where it is not known."""
    for word in statement.words:
        if not _is_literal([word]):
            return None
        text = "".join(part.text for part in word.parts if isinstance(part, Literal))
        if text not in _IN_FRONT:
            return text
    return ""


def _hides(statement: Simple, called: str) -> bool:
    """Whether it is not known which variable a command sets, or it makes one a name for another."""
    words = statement.words[1:]
    sources = [word.source for word in words]
    if called in _NAMED_BY:
        return any(source.startswith(_NAMED_BY[called]) for source in sources) and not _is_literal(words)
    if called in _DECLARING and any(re.match(r"-\w*n", source) for source in sources):
        return True
    return called in _READERS | _DECLARING | {"let"} and not _is_literal(words)


def _is_literal(words: Sequence[Word]) -> bool:
    return all(isinstance(part, Literal) for word in words for part in word.parts)


def _set_by(called: str, words: Sequence[Word]) -> Iterator[str]:
    """Yield the names of the variables that a command of the shell sets."""
    sources = [word.source for word in words]
    if called in _NAMED_BY:
        option = _NAMED_BY[called]
        named = zip(sources, [*sources, ""][1:], strict=True)
        sources = [found.removeprefix(option) or after for found, after in named if found.startswith(option)]
    if called in _NAMED_BY or called in _READERS or called == "let":
        yield from (name for source in sources for name in _NAME.findall(source))


def _names(statement: Statement) -> Iterator[str]:
    if isinstance(statement, Simple):
        for item in (*statement.assignments, *statement.declared):
            yield item.name if isinstance(item, Assignment) else item
        yield from _set_by(_called(statement) or "", statement.words[1:])
    elif isinstance(statement, For):
        yield statement.name
    elif isinstance(statement, CountingFor | Arithmetic):
        yield from statement.names
    for word in _words(statement):
        yield from _expanding(word)


def _words(statement: Statement) -> Iterator[Word]:
    """Yield the words that are expanded for a statement itself."""
    if isinstance(statement, Simple):
        yield from statement.words
        for item in (*statement.assignments, *statement.declared):
            if isinstance(item, Assignment):
                yield from (item.value,) if item.value is not None else item.items or ()
    elif isinstance(statement, For):
        yield from statement.words or ()
    elif isinstance(statement, Case):
        yield statement.subject
        yield from (pattern for item in statement.items for pattern in item.patterns)
    if isinstance(statement, Simple | Group):
        for redirect in statement.redirects:
            yield from (word for word in (redirect.target, redirect.text) if word is not None)


def _expanding(word: Word) -> Iterator[str]:
    """Yield the names of variables that the expansion of a word may change."""
    for part in word.parts:
        if isinstance(part, Opaque) and re.search(r"=|\+\+|--", part.source):
            yield from _NAME.findall(part.source)
        elif isinstance(part, Variable) and part.argument is not None:
            if "=" in part.operator:
                yield part.name
            yield from _expanding(part.argument)


def _inside(statement: Statement) -> Iterator[Statement]:
    if isinstance(statement, Block):
        yield from (item.statement for item in statement.items)
    elif isinstance(statement, AndOr | Pipeline):
        yield from statement.parts
    elif isinstance(statement, Negated | Group | Function | For | CountingFor):
        yield statement.body
    elif isinstance(statement, While):
        yield from (statement.condition, statement.body)
    elif isinstance(statement, If):
        yield from (block for clause in statement.clauses for block in clause)
        if statement.otherwise is not None:
            yield statement.otherwise
    elif isinstance(statement, Case):
        yield from (item.body for item in statement.items)
