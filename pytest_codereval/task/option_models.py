"""The flags that a recorded tool declares once, for its rules and for every criterion about its calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from .base import Finding, StrictModel, problem
from .fields import Count

_MOST_ARGUMENTS = 100


class FlagOption(StrictModel):
    """A flag: how many of the next arguments belong to it, and its other names. A number alone is the arity."""

    arity: Annotated[Count, Field(le=_MOST_ARGUMENTS)] = 1
    aliases: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _number_is_arity(cls, value: Any) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return {"arity": value}
        if isinstance(value, Mapping | FlagOption):
            return value
        raise problem("expected how many arguments follow the flag, or a mapping {arity, aliases}")


Options = dict[str, FlagOption]


def option_names(options: Options) -> tuple[tuple[tuple[str, ...], int], ...]:
    """Return each flag's names, its key first, without dashes, and its arity."""
    return tuple(((name, *option.aliases), option.arity) for name, option in options.items())


def option_findings(options: Options) -> Iterator[Finding]:
    """What is wrong with the names of a tool's flags; locations start at the name of the flag."""
    owner: dict[str, str] = {}
    for key, option in options.items():
        for index, name in enumerate((key, *option.aliases)):
            place = (key,) if index == 0 else (key, "aliases", index - 1)
            if error := _name_error(name):
                yield Finding(place, error)
            elif name in owner:
                yield Finding(place, f"{name!r} is declared twice (first by {owner[name]!r})")
            owner.setdefault(name, key)


def _name_error(name: str) -> str | None:
    if name.startswith("-"):
        return "expected the flag's name without dashes"
    if not name or "=" in name or any(char.isspace() for char in name):
        return f"{name!r} is no name of a flag"
    return None
