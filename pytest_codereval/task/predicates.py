"""Conditions on one text: the value of a flag, standard input, a directory, a variable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import GetJsonSchemaHandler, ValidationInfo, model_validator
from pydantic.json_schema import JsonSchemaValue

from .base import Finding, WholeModel, problem, raise_findings
from .fields import AtLeastOne, Integer, NonBlank, awaits_row, regex_error

PREDICATES = ("equals", "contains", "matches_regex", "any_of", "absent", "present")


class TextPredicate(WholeModel):
    """Exactly one condition on a text. Text alone means `equals`; text that is not there is `absent`.

    An empty standard input is absent, and so are a variable and a state that are not set; a regular expression is
    searched, with the flags of `re`.
    """

    equals: str | None = None
    contains: str | None = None
    matches_regex: str | None = None
    flags: Integer = 0
    any_of: Annotated[tuple[str, ...], AtLeastOne] | None = None
    absent: Literal[True] | None = None
    present: Literal[True] | None = None

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Text alone, or the mapping."""
        return {"anyOf": [{"type": "string"}, handler(core_schema)]}

    @model_validator(mode="before")
    @classmethod
    def _text_is_equals(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"equals": value}
        if isinstance(value, Mapping | TextPredicate):
            return value
        raise problem("expected text (put numbers and true/false in quotes) or a mapping with one predicate")

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Self:
        raise_findings(type(self).__name__, self._findings(info), self.__dict__)
        return self

    @property
    def condition(self) -> tuple[object, ...]:
        """What is asked, to be compared with other conditions."""
        regex = (self.matches_regex, self.flags)
        return (self.equals, self.contains, *regex, self.any_of, self.absent, self.present)

    def _findings(self, info: ValidationInfo) -> list[Finding]:
        used = [name for name in PREDICATES if getattr(self, name) is not None]
        if len(used) != 1:
            given = f"found {' and '.join(used)}" if used else "found none"
            return [Finding((), f"expected exactly one of {', '.join(PREDICATES)}; {given}")]
        if self.matches_regex is None:
            return [Finding(("flags",), "flags belong to matches_regex")] if self.flags else []
        if not awaits_row(self.matches_regex, info) and (error := regex_error(self.matches_regex, self.flags)):
            return [Finding(("flags",) if error.startswith("flags") else ("matches_regex",), error)]
        return []


class FlagPredicate(TextPredicate):
    """One condition on the values of a flag. Text alone means `equals`."""

    aliases: tuple[NonBlank, ...] = ()

    @property
    def takes_value(self) -> bool:
        """Whether the flag consumes the next token when it is parsed."""
        return self.absent is None and self.present is None


Flags = dict[str, FlagPredicate]
