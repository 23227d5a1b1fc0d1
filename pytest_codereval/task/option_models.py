"""The flags that a recorded tool declares once, for its rules and for every criterion about its calls."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue

from .base import Finding, WholeModel, problem
from .fields import Count
from .nearest import hint

_MOST_ARGUMENTS = 100


class FlagOption(WholeModel):
    """A flag: how many of the next arguments belong to it, and its other names. A number alone is the arity."""

    arity: Annotated[Count, Field(le=_MOST_ARGUMENTS)] = 1
    aliases: tuple[str, ...] = ()

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """A number alone, or the mapping."""
        return {"anyOf": [{"type": "integer", "minimum": 0, "maximum": _MOST_ARGUMENTS}, handler(core_schema)]}

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


@dataclasses.dataclass(frozen=True)
class DeclaredFlags:
    """The flags that a tool declares: all names of each, its first name first. False when it declares none."""

    tool: str = ""
    groups: tuple[tuple[str, ...], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def names(self) -> Collection[str]:
        """All names of all flags."""
        return self._first_names.keys()

    def first_name(self, name: str) -> str:
        """The first name of the flag with this name; the name itself when no flag has it."""
        return self._first_names.get(name, name)

    def refusal(self, name: str) -> str | None:
        """Why no flag of the tool is named so, or None when one is."""
        if name in self.names:
            return None
        return f"{self.tool} declares no flag {name!r}{hint(name, self.names)}"

    @functools.cached_property
    def _first_names(self) -> Mapping[str, str]:
        return {name: names[0] for names in self.groups for name in names}


def declared_flags(tool: str, options: Options) -> DeclaredFlags:
    """The flags that the tool of this name declares with these options."""
    return DeclaredFlags(tool, tuple(names for names, _ in option_names(options)))


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
