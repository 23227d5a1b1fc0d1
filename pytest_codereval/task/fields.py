"""Types of single values: numbers, texts, paths, patterns. A value that waits for a dataset row is checked later."""

from __future__ import annotations

import re
import warnings
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from .base import problem

ROW_MARK = "${row."
REGEX_FLAGS = int(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.ASCII | re.UNICODE)
VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEVER_EXPANDED = ("~/", "$TASK_DIR", "${TASK_DIR}", "$REFERENCE_DIR", "${REFERENCE_DIR}")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def awaits_row(text: str, info: ValidationInfo) -> bool:
    """Tell whether `text` is a template that becomes a value only with a row of the dataset."""
    return ROW_MARK in text and (info.context is None or bool(info.context.get("rows")))


def refuse_bool(value: Any) -> Any:
    """Refuse true and false where a number is expected: they would be read as 1 and 0."""
    if isinstance(value, bool):
        raise problem("expected a number")
    return value


def regex_error(pattern: str, flags: int = 0) -> str | None:
    """Return what is wrong with a regular expression, or None when it compiles."""
    if flags & ~REGEX_FLAGS or flags < 0:
        return f"flags {flags}: only the sum of these is allowed: 2 (i), 8 (m), 16 (s), 32 (u), 64 (x), 256 (a)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern, flags)
    except (re.error, ValueError, OverflowError) as error:
        return f"not a regular expression: {error}"
    except RecursionError:
        return "not a usable regular expression: nested too deeply"
    return None


def path_error(path: str) -> str | None:
    """Return why `path` does not name something inside the workspace, or None when it does."""
    if not path.strip():
        return "the path is empty"
    if "\0" in path:
        return "the path has a NUL character"
    if path.startswith(("/", "\\")) or _DRIVE.match(path):
        return "the path is absolute; expected one relative to the workspace"
    if path.startswith(_NEVER_EXPANDED):
        return "variables and '~' are not expanded here; expected a path relative to the workspace"
    depth = 0
    for part in path.replace("\\", "/").split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            return "the path leaves the workspace"
    return None


def _workspace_place(path: str, info: ValidationInfo) -> str:
    if awaits_row(path, info):
        return path
    if error := path_error(path):
        raise problem(error)
    return path


def _workspace_file(path: str, info: ValidationInfo) -> str:
    _workspace_place(path, info)
    parts = [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
    if not awaits_row(path, info) and parts.count("..") * 2 == len(parts):
        raise problem("the path names the workspace itself; expected something inside it")
    return path


def _pattern(pattern: str, info: ValidationInfo) -> str:
    if not awaits_row(pattern, info) and (error := regex_error(pattern)):
        raise problem(error)
    return pattern


def _command_pattern(pattern: str, info: ValidationInfo) -> str:
    if not awaits_row(pattern, info) and (error := regex_error(pattern, re.DOTALL)):
        raise problem(error)
    return pattern


def _not_blank(text: str) -> str:
    if not text.strip():
        raise problem("expected text, found none")
    return text


def _some(items: Any) -> Any:
    if not items:
        raise problem("expected at least one item")
    return items


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise problem("the text has a NUL character, which no program can take")
    return text


def _argument(text: str) -> str:
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise problem("the text has half of a surrogate pair, which is no character")
    return _no_nul(text)


AtLeastOne = AfterValidator(_some)
"""For lists and mappings; unlike a bound on the length it says nothing more when an item is wrong."""

Integer = Annotated[int, BeforeValidator(refuse_bool)]
Count = Annotated[int, BeforeValidator(refuse_bool), Field(ge=0)]
PositiveInt = Annotated[int, BeforeValidator(refuse_bool), Field(gt=0)]
Number = Annotated[float, BeforeValidator(refuse_bool), Field(allow_inf_nan=False)]
PositiveNumber = Annotated[float, BeforeValidator(refuse_bool), Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, BeforeValidator(refuse_bool), Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, BeforeValidator(refuse_bool), Field(ge=0, allow_inf_nan=False)]
ExitStatus = Annotated[int, BeforeValidator(refuse_bool), Field(ge=0, le=255)]

NonBlank = Annotated[str, AfterValidator(_not_blank)]
Command = Annotated[str, AfterValidator(_not_blank), AfterValidator(_no_nul)]
HostPath = Annotated[str, AfterValidator(_not_blank), AfterValidator(_no_nul)]
OutputText = Annotated[str, AfterValidator(_argument)]
WorkspacePath = Annotated[str, AfterValidator(_workspace_file)]
WorkspaceDirectory = Annotated[str, AfterValidator(_workspace_place)]
Pattern = Annotated[str, AfterValidator(_pattern)]
CommandPattern = Annotated[str, AfterValidator(_command_pattern)]
