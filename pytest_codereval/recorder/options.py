"""The flags that a tool declares, once for its rules and for every criterion about its calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence


@dataclasses.dataclass(frozen=True)
class Option:
    """One flag: all its names without dashes, and how many of the next arguments belong to it."""

    names: tuple[str, ...]
    arity: int


OptionTable = tuple[Option, ...]
"""All declared flags of a tool; empty when it declares none."""


def option_table(declared: Iterable[tuple[Sequence[str], int]]) -> OptionTable:
    """The table of flags that are given as their names and arity, as `RecordedTool.option_names` gives them."""
    return tuple(Option(tuple(names), arity) for names, arity in declared)
