"""What a statement may change in the shell that runs it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

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
    Negated,
    Pipeline,
    Simple,
    Statement,
    While,
)

_READERS = frozenset({"read", "mapfile", "readarray", "getopts", "let", "printf"})
_OPTION_SETTERS = frozenset({"set", "shift", "eval", ".", "source", "shopt"})


@dataclasses.dataclass(frozen=True)
class Writes:
    """Variables that a statement may change, and whether it may change options or positional parameters."""

    names: frozenset[str]
    options: bool


def writes_of(statement: Statement) -> Writes:
    """Return what a statement may change, without what functions that it calls change."""
    names: set[str] = set()
    options = False
    waiting: list[Statement] = [statement]
    while waiting:
        found = waiting.pop()
        names.update(_names(found))
        waiting.extend(_inside(found))
        options = options or (
            isinstance(found, Simple) and bool(found.words) and found.words[0].source in _OPTION_SETTERS
        )
    return Writes(frozenset(names), options)


def _names(statement: Statement) -> Iterator[str]:
    if isinstance(statement, Simple):
        for item in (*statement.assignments, *statement.declared):
            yield item.name if isinstance(item, Assignment) else item
        if statement.words and statement.words[0].source in _READERS:
            for word in statement.words[1:]:
                yield from re.findall(r"^[A-Za-z_]\w*", word.source)
    elif isinstance(statement, For):
        yield statement.name
    elif isinstance(statement, CountingFor | Arithmetic):
        yield from statement.names


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
