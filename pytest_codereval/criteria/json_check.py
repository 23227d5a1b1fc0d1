"""Criterion type json_check: a JSON file against a schema and against assertions about its values."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..errors import JudgingError
from ..sandbox.workspace import Unreadable
from ..task.file_models import JsonAssertion, JsonCheck
from ..text import shorten
from .contract import Evidence, Judgement
from .json_operators import Incomparable, holds
from .json_schemas import BadSchema, schema_errors
from .json_strict import NotJson, is_json, parse
from .reading import fail_when_unreadable, read_text

SHOWN_LENGTH = 200


@fail_when_unreadable
def check(criterion: JsonCheck, evidence: Evidence) -> Judgement:
    """Score the mean of the schema part and the ratio of assertions met; 0 at once when the schema part is not met.

    Raises JudgingError when an assertion expects what no JSON file can hold, such as a date.
    """
    for assertion in criterion.assertions:
        if not is_json(assertion.expected):
            raise JudgingError(f"{assertion.expression}: {assertion.expected!r} is no JSON value; put it in quotes")
    name = evidence.workspace.resolve_one(criterion.path)
    try:
        value, twice = parse(evidence.workspace.read_text(name))
    except NotJson as error:
        return Judgement(0.0, f"{name} is not JSON: {error}")
    note = _note(twice)
    if criterion.json_schema is not None:
        violations = _violations(value, criterion.json_schema, evidence)
        if violations:
            reason = f"{name} does not follow {criterion.json_schema}: {violations[0]}"
            return Judgement(0.0, reason + note, "\n".join(violations))
    return _judge_assertions(criterion, name, value, note)


def _note(twice: Sequence[str]) -> str:
    if not twice:
        return ""
    names = shorten(", ".join(map(repr, twice)), SHOWN_LENGTH)
    return f"; note: {names} named twice in one object, the last one counts"


def _judge_assertions(criterion: JsonCheck, name: str, value: object, note: str) -> Judgement:
    unmet = [line for line in (_unmet(assertion, value) for assertion in criterion.assertions) if line]
    total = len(criterion.assertions)
    parts = [1.0] if criterion.json_schema is not None else []
    if total:
        parts.append((total - len(unmet)) / total)
    score = sum(parts) / len(parts) if parts else 1.0
    reason = f"{name}: {total - len(unmet)} of {total} assertions met" if total else f"{name} is JSON"
    if criterion.json_schema is not None:
        reason += f", and it follows {criterion.json_schema}"
    return Judgement(score, reason + (f"; {unmet[0]}" if unmet else "") + note, "\n".join(unmet))


def _violations(value: object, schema_path: str, evidence: Evidence) -> list[str]:
    try:
        schema, _ = parse(read_text(evidence.workspace, schema_path))
        return schema_errors(value, schema)
    except Unreadable as error:
        return [f"the schema cannot be read: {error}"]
    except NotJson as error:
        return [f"the schema is not JSON: {error}"]
    except BadSchema as error:
        return [f"the schema cannot be used: {error}"]


def _unmet(assertion: JsonAssertion, value: object) -> str:
    """Return a line that says why the assertion is not met, or an empty text."""
    import jmespath
    import jmespath.exceptions

    asked = f"{assertion.expression} {assertion.operator}"
    if assertion.operator != "exists":
        asked += f" {_shown(assertion.expected)}"
    try:
        actual = jmespath.search(assertion.expression, value)
        if holds(assertion.operator, actual, assertion.expected):
            return ""
        return f"{asked}: found {'nothing (or null)' if actual is None else _shown(actual)}"
    except (jmespath.exceptions.JMESPathError, Incomparable) as error:
        return f"{asked}: {error}"
    except Exception as error:
        # Whatever the agent's values raise inside JMESPath and the operators is the agent's fault.
        return f"{asked}: it cannot be evaluated: {type(error).__name__}: {error}"


def _shown(value: object) -> str:
    return shorten(json.dumps(value, ensure_ascii=False), SHOWN_LENGTH)
