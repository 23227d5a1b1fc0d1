"""What is known of a shell while it runs: variables, functions and options."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from .syntax import Statement

MOST_VALUE = 64 * 1024
"""Characters of a value that is known; an item of an array counts some more."""

MOST_CHARACTERS = 2_000_000
"""Characters that come out of the expansions of one text; what is beyond is not known."""

Value = str | tuple[str, ...] | None
"""A text, the items of an array, or None for a value that is not known."""


def bounded(value: Value) -> Value:
    """Return a value, or None where it is too long to be kept."""
    size = len(value) if isinstance(value, str) else sum(len(item) + 20 for item in value or ())
    return value if size <= MOST_VALUE else None


@dataclasses.dataclass
class Scope:
    """The state of one shell. Options are None where it is not known whether they are on."""

    variables: dict[str, Value] = dataclasses.field(default_factory=dict)
    exported: set[str] = dataclasses.field(default_factory=set)
    functions: dict[str, Statement | None] = dataclasses.field(default_factory=dict)
    positional: tuple[str, ...] | None = None
    fixed: set[str] = dataclasses.field(default_factory=set)
    """Variables that are read-only somewhere."""
    errexit: bool | None = False
    checked: bool = True
    """Whether a failure here counts for `set -e`: not in a condition."""
    pipefail: bool | None = False
    own_path: bool = False
    """Whether PATH was replaced."""
    depth: int = 0
    """How many functions and nested shells deep."""
    prefixed: tuple[str, ...] = ()
    """What runs this shell: `bash -c`, and the prefixes before it."""
    budget: list[int] = dataclasses.field(default_factory=lambda: [MOST_CHARACTERS])
    """Characters that may still come out of expansions, shared by all shells of a text."""
    broken_pipe: bool = False
    """Whether the output goes to a pipe whose reader may end early, which ends a shell that prints."""
    in_function: bool = False
    local: dict[str, Value] = dataclasses.field(default_factory=dict)
    """Variables that end with the function, with the values before."""
    in_loop: bool = False

    def spend(self, characters: int) -> bool:
        """Take characters from the budget; False when it is used up."""
        self.budget[0] -= characters
        return self.budget[0] >= 0

    def copy(self) -> Scope:
        """Return a scope that changes by itself, as that of a subshell."""
        return dataclasses.replace(
            self, variables=dict(self.variables), exported=set(self.exported), functions=dict(self.functions)
        )

    def adopt(self, other: Scope) -> None:
        """Take over the variables, functions and options of `other`."""
        self.variables, self.exported, self.functions = other.variables, other.exported, other.functions
        self.positional = other.positional
        self.errexit, self.pipefail, self.own_path = other.errexit, other.pipefail, other.own_path

    def merge(self, other: Scope) -> None:
        """Keep what is true here and in `other`, either of which may be the state of the shell."""
        names = self.variables.keys() | other.variables.keys()
        self.variables = {name: _common(self.variables, other.variables, name) for name in names}
        self.exported = self.exported | other.exported
        known = self.functions.keys() | other.functions.keys()
        self.functions = {
            name: self.functions.get(name) if self.functions.get(name) is other.functions.get(name) else None
            for name in known
        }
        self.positional = self.positional if self.positional == other.positional else None
        self.errexit = self.errexit if self.errexit == other.errexit else None
        self.pipefail = self.pipefail if self.pipefail == other.pipefail else None
        self.own_path = self.own_path or other.own_path

    def child(self, overrides: Mapping[str, Value]) -> Scope:
        """Return the scope of a shell that is started from this one, with more variables of its environment."""
        variables = {name: value for name, value in self.variables.items() if name in self.exported}
        variables.update(overrides)
        return Scope(
            variables,
            set(variables),
            own_path=self.own_path,
            budget=self.budget,
            broken_pipe=self.broken_pipe,
            depth=self.depth,
        )


def _common(one: Mapping[str, Value], two: Mapping[str, Value], name: str) -> Value:
    return one[name] if name in one and name in two and one[name] == two[name] else None
