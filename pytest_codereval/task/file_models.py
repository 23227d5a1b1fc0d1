"""Criteria about files of the workspace."""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

from pydantic import ValidationInfo, field_validator, model_validator

from .base import Finding, WholeModel, problem, raise_findings
from .criterion import Criterion
from .fields import AtLeastOne, Fraction, Integer, NonBlank, WorkspacePath, awaits_row, regex_error

JSON_TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
JsonOperator = Literal["equals", "not_equals", "contains", "gt", "gte", "lt", "lte", "type", "regex", "exists"]
_ORDERING = ("gt", "gte", "lt", "lte")
_SHORTEST_CONTAINED = 8


class FileCriterion(Criterion):
    """Does no more than read files of the workspace and of the reference."""

    @property
    def evaluable_after_failure(self) -> bool:
        return True


class FileExists(FileCriterion):
    """A file or directory is there. A path with `* ? [` is a glob."""

    type: Literal["file_exists"] = "file_exists"
    path: WorkspacePath


class FileContains(FileCriterion):
    """A file has all texts of `includes` and none of `excludes`."""

    type: Literal["file_contains"] = "file_contains"
    path: WorkspacePath
    includes: tuple[str, ...]
    excludes: tuple[str, ...] | None = None


class _RegexModel(WholeModel):
    """Something with a pattern and its flags (the sum of Python's `re` flags)."""

    pattern: str
    must_match: bool = True
    flags: Integer = 0

    @model_validator(mode="after")
    def _compile(self, info: ValidationInfo) -> Any:
        raise_findings(type(self).__name__, _regex_findings(self.pattern, self.flags, info), self.__dict__)
        return self


def _regex_findings(pattern: str, flags: int, info: ValidationInfo) -> list[Finding]:
    if awaits_row(pattern, info):
        return []
    if error := regex_error(pattern, flags):
        return [Finding(("flags",) if error.startswith("flags") else ("pattern",), error)]
    return []


class FileMatchesRegex(FileCriterion, _RegexModel):
    """A search of the pattern in the whole file finds something, or nothing with `must_match: false`."""

    type: Literal["file_matches_regex"] = "file_matches_regex"
    path: WorkspacePath


class FilePattern(_RegexModel):
    """One pattern of `file_check`."""


class FileCheck(FileCriterion):
    """A file is there and meets texts and patterns; each kind that is used counts alike."""

    type: Literal["file_check"] = "file_check"
    path: WorkspacePath
    includes: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    patterns: tuple[FilePattern, ...] = ()


class JsonAssertion(WholeModel):
    """A JMESPath expression whose value is compared with `expected`."""

    expression: str
    operator: JsonOperator = "equals"
    expected: Any = None

    @field_validator("expression")
    @classmethod
    def _compile(cls, expression: str, info: ValidationInfo) -> str:
        if not awaits_row(expression, info):
            from .jmespath_check import expression_error

            if error := expression_error(expression):
                raise problem(error)
        return expression

    @model_validator(mode="after")
    def _check_expected(self, info: ValidationInfo) -> JsonAssertion:
        raise_findings("JsonAssertion", self._findings(info), self.__dict__)
        return self

    def _findings(self, info: ValidationInfo) -> list[Finding]:
        if self.operator == "exists":
            return []
        if not self.given("expected"):
            return [Finding(("expected",), f"the operator {self.operator} needs a value to compare with")]
        if isinstance(self.expected, str) and awaits_row(self.expected, info):
            return []
        message = _expected_error(self.operator, self.expected)
        return [Finding(("expected",), message)] if message else []


def _expected_error(operator: str, expected: Any) -> str | None:
    if isinstance(expected, datetime.date):
        return f"YAML reads {expected} as a date, which JSON does not have; put it in quotes"
    if operator == "contains" and isinstance(expected, str) and len(expected.strip()) < _SHORTEST_CONTAINED:
        return (
            f"a text this short is contained by chance; give at least {_SHORTEST_CONTAINED} characters, or use equals"
        )
    if operator == "regex":
        return regex_error(expected) if isinstance(expected, str) else "expected a regular expression as text"
    if operator == "type" and expected not in JSON_TYPES:
        return f"expected a type of JSON: {', '.join(JSON_TYPES)}"
    if operator in _ORDERING and (isinstance(expected, bool) or not isinstance(expected, int | float | str)):
        return f"the operator {operator} needs a number"
    return None


class JsonCheck(FileCriterion):
    """A JSON file is valid, follows a JSON Schema of the workspace and meets assertions."""

    type: Literal["json_check"] = "json_check"
    path: WorkspacePath
    json_schema: WorkspacePath | None = None
    assertions: tuple[JsonAssertion, ...] = ()


class ClassificationMatch(FileCriterion):
    """A file holds one of a set of labels, and it is the expected one."""

    type: Literal["classification_match"] = "classification_match"
    path: WorkspacePath
    expected_label: str
    allowed_labels: Annotated[tuple[str, ...], AtLeastOne]
    case_sensitive: bool = False

    def labels(self) -> frozenset[str]:
        return frozenset((*self.allowed_labels, "(none)", "(other)"))

    def canonical(self, text: str) -> str | None:
        """The allowed label that `text` spells, or None."""
        if self.case_sensitive:
            return text if text in self.allowed_labels else None
        folded = text.casefold()
        return next((label for label in self.allowed_labels if label.casefold() == folded), None)

    def expected(self) -> str:
        return self.canonical(self.expected_label) or self.expected_label


class ReferenceComparison(FileCriterion):
    """A Python file is similar to one of the reference. Its two thresholds are one; `similarity_threshold` wins."""

    type: Literal["reference_comparison"] = "reference_comparison"
    needs_trajectory = True
    agent_file: WorkspacePath
    reference_file: NonBlank
    comparison_method: Literal["ast", "token", "complexity"] = "ast"
    similarity_threshold: Fraction = 0.8
    pass_threshold: Fraction = 0.8

    @field_validator("reference_file")
    @classmethod
    def _stay_inside(cls, path: str, info: ValidationInfo) -> str:
        if not awaits_row(path, info) and (path.startswith(("/", "\\")) or ".." in path.replace("\\", "/").split("/")):
            raise problem("expected a path inside the reference directory, relative and without '..'")
        return path

    @model_validator(mode="before")
    @classmethod
    def _one_threshold(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        threshold = value.get("similarity_threshold", value.get("pass_threshold"))
        if isinstance(threshold, int | float) and 0 <= threshold <= 1 and not isinstance(threshold, bool):
            return {**value, "similarity_threshold": threshold, "pass_threshold": threshold}
        return value
