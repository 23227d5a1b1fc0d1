"""The base of all models, and errors that know their place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError, ValidatorFunctionWrapHandler, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from .layering.merging import WHOLE, Merging

Location = tuple[str | int, ...]
"""Keys and list indexes that lead from a mapping to a value."""


class Finding(NamedTuple):
    """One mistake, by its place below the model that was looked at."""

    location: Location
    message: str


def custom_error(kind: str, message: str, **context: Any) -> PydanticCustomError:
    """Return an error whose message is taken as it is, whatever braces it has."""
    return PydanticCustomError(kind, "{message}", {"message": message, **context})


def problem(message: str) -> PydanticCustomError:
    """Return the error that a validator raises about its value."""
    return custom_error("problem", message)


def raise_findings(title: str, findings: Iterable[Finding], value: Mapping[str, Any] | None = None) -> None:
    """Raise a ValidationError with all findings, if there are any."""
    errors = [
        InitErrorDetails(type=problem(message), loc=location, input=_at(value, location))
        for location, message in findings
    ]
    if errors:
        raise ValidationError.from_exception_data(title, errors)


def _at(value: Any, location: Location) -> Any:
    for part in location:
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, Sequence) and not isinstance(value, str) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


class StrictModel(BaseModel):
    """A mapping that refuses unknown keys and cannot be changed after it was made."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        defer_build=True,
        populate_by_name=True,
        validate_default=False,
        protected_namespaces=(),
    )

    merging: ClassVar[Merging | None] = None
    """What becomes of each field when several layers give it."""

    @model_validator(mode="wrap")
    @classmethod
    def _tell_valid_keys(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError as error:
            raise _with_valid_keys(error, cls.keys()) from None

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys that an author may write."""
        return tuple(field.alias or name for name, field in cls.model_fields.items())

    def given(self, name: str) -> bool:
        """Tell whether the author wrote this key."""
        return name in self.model_fields_set


class WholeModel(StrictModel):
    """A mapping that no layer changes in part: an item of a list, or a value that is replaced."""

    merging = WHOLE


def _with_valid_keys(error: ValidationError, valid: tuple[str, ...]) -> ValidationError:
    details = error.errors(include_url=False)
    if not any(detail["type"] == "extra_forbidden" for detail in details):
        return error
    rebuilt = []
    for detail in details:
        kind: Any = detail["type"]
        if kind == "extra_forbidden" and len(detail["loc"]) == 1:
            kind = custom_error("unknown_key", "unknown key", valid=valid)
        elif kind in ("problem", "unknown_key"):
            kind = custom_error(kind, detail["msg"], **{k: v for k, v in detail["ctx"].items() if k != "message"})
        line = InitErrorDetails(type=kind, loc=detail["loc"], input=detail["input"])
        if isinstance(kind, str) and "ctx" in detail:
            line["ctx"] = detail["ctx"]
        rebuilt.append(line)
    return ValidationError.from_exception_data(error.title, rebuilt)
