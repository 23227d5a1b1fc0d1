"""Statuses that a block keeps in a variable and hands on at its end, as in `command; rc=$?; others; exit $rc`."""

from __future__ import annotations

import dataclasses
import re

from .outcomes import EXITS, RETURNS, Table
from .scope import Scope
from .syntax import Item, Simple
from .writes import Writes

_CHANGING = frozenset(
    "_ SECONDS RANDOM SRANDOM LINENO REPLY OPTIND OPTARG OPTERR PIPESTATUS BASHPID EPOCHSECONDS BASH_COMMAND"
    " BASH_SUBSHELL FUNCNAME UID EUID PPID IFS".split()
)
"""Variables that the shell changes by itself."""


@dataclasses.dataclass(frozen=True)
class Carries:
    """That a statement hands on the status in the variable `name`, as `table` says."""

    name: str
    table: Table


def carries(item: Item) -> Carries | None:
    """Return whose status `exit $?`, `return` or `exit $rc` hands on."""
    statement = item.statement
    if item.background or not isinstance(statement, Simple) or statement.assignments or statement.redirects:
        return None
    sources = [word.source for word in statement.words]
    if sources[:1] not in (["exit"], ["return"]) or len(sources) > 2:
        return None
    found = re.fullmatch(r"(\"?)\$(\{?)(\?|[A-Za-z_]\w*)\}?\1", sources[1] if len(sources) == 2 else "$?")
    return Carries(found[3], EXITS if sources[0] == "exit" else RETURNS) if found else None


class Statuses:
    """The variables of a block that hold the status of one of its statements, by its number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    def number(self, name: str, statements: int) -> int | None:
        """Return which of so many statements the variable `name` has the status of."""
        if name == "?":
            return statements - 1 if statements else None
        return self._numbers.get(name)

    def forget(self) -> None:
        """Forget all."""
        self._numbers.clear()

    def change(self, writes: Writes, scope: Scope) -> None:
        """Forget what a statement may change."""
        if writes.unclear or any(name in scope.functions for name in writes.commands):
            self._numbers.clear()
        for name in writes.names:
            self._numbers.pop(name, None)

    def keep(self, item: Item, statements: int, scope: Scope) -> None:
        """Note a variable that takes the status of the last of so many statements, as in `rc=$?`."""
        name = _saved_status(item)
        if name is not None and statements and name not in _CHANGING and name not in scope.fixed:
            self._numbers[name] = statements - 1


def _saved_status(item: Item) -> str | None:
    statement = item.statement
    if item.background or not isinstance(statement, Simple) or statement.words or len(statement.assignments) != 1:
        return None
    assignment = statement.assignments[0]
    is_status = assignment.value is not None and assignment.value.source in ("$?", '"$?"') and not assignment.append
    return assignment.name if is_status and not statement.redirects else None
