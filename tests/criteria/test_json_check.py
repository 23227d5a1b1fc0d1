"""json_check: strict JSON, assertions, schemas."""

from __future__ import annotations

import contextlib
import datetime
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_codereval.criteria.json_strict import NotJson, equal, parse
from pytest_codereval.errors import JudgingError
from pytest_codereval.judging.bounded import bounded

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.fixture
def check(judge, workspace):
    """Judge assertions (expression, operator, expected) about a JSON text."""

    def run(text, *assertions, **fields):
        (workspace / "x.json").write_text(text if isinstance(text, str) else json.dumps(text))
        keys = ("expression", "operator", "expected")
        listed = [dict(zip(keys, assertion, strict=False)) for assertion in assertions]
        return judge(type="json_check", path="x.json", assertions=listed, **fields)

    return run


@pytest.mark.parametrize(
    ("value", "assertion", "score"),
    [
        ({"a": 1}, ("a", "equals", 1), 1),
        ({"a": 1}, ("a", "equals", 1.0), 1),
        ({"a": True}, ("a", "equals", 1), 0),
        ({"a": 1}, ("a", "equals", True), 0),
        ({"a": 0}, ("a", "equals", False), 0),
        ({"a": [True]}, ("a", "equals", [1]), 0),
        ({"a": {"b": 1}}, ("a", "equals", {"b": True}), 0),
        ({"a": [1, {"b": None}]}, ("a", "equals", [1, {"b": None}]), 1),
        ({"a": True}, ("a", "not_equals", 1), 1),
        ({"a": "x"}, ("a", "not_equals", "x"), 0),
        ({}, ("a", "equals", None), 1),
        ({"a": None}, ("a", "equals", None), 1),
        ({"a": [1, 2]}, ("a", "contains", 2), 1),
        ({"a": [1, 2]}, ("a", "contains", True), 0),
        ({"a": "a long text"}, ("a", "contains", "long text"), 1),
        ({"a": "a long text"}, ("a", "contains", "other text"), 0),
        ({"a": {"long name": 1}}, ("a", "contains", "long name"), 1),
        ({"a": 5}, ("a", "contains", "12345678"), 0),
        ({"a": 5}, ("a", "gt", 4), 1),
        ({"a": 5}, ("a", "gt", 5), 0),
        ({"a": 5}, ("a", "gte", 5), 1),
        ({"a": 5}, ("a", "lt", 5.5), 1),
        ({"a": 5}, ("a", "lte", 4), 0),
        ({"a": "10"}, ("a", "gt", 9), 0),
        ({"a": True}, ("a", "gt", 0), 0),
        ({}, ("a", "lt", 1), 0),
        ({"a": "2024-05-01"}, ("a", "gte", "2024-04-30"), 1),
        ({"a": "x"}, ("a", "type", "string"), 1),
        ({"a": 1.5}, ("a", "type", "number"), 1),
        ({"a": True}, ("a", "type", "number"), 0),
        ({"a": True}, ("a", "type", "boolean"), 1),
        ({"a": None}, ("a", "type", "null"), 1),
        ({"a": []}, ("a", "type", "array"), 1),
        ({"a": {}}, ("a", "type", "object"), 1),
        ({"a": 3}, ("a", "type", "integer"), 1),
        ({"a": 3.0}, ("a", "type", "integer"), 1),
        ({"a": 3.5}, ("a", "type", "integer"), 0),
        ({"a": True}, ("a", "type", "integer"), 0),
        ({"a": "v1.2"}, ("a", "regex", r"^v\d"), 1),
        ({"a": 12}, ("a", "regex", r"\d"), 0),
        ({"a": 0}, ("a", "exists"), 1),
        ({"a": False}, ("a", "exists"), 1),
        ({"a": None}, ("a", "exists"), 0),
        ({"a": [{"n": 1}, {"n": 2}]}, ("length(a[?n > `1`])", "equals", 1), 1),
        ({"a": 1}, ("length(a)", "equals", 1), 0),
        ({"a": "x"}, ("join(',', a)", "exists"), 0),
    ],
)
def test_assertions(check, value, assertion, score):
    judgement = check(value, assertion)
    assert judgement.score == score, judgement
    assert bool(judgement.details) == (score == 0)


@pytest.mark.parametrize("expected", [datetime.date(2024, 5, 1), [datetime.datetime(2024, 5, 1)], {"a": {1}}, {1: 2}])
def test_expected_value_that_json_cannot_hold_is_no_verdict(check, expected):
    with pytest.raises((JudgingError, ValidationError)):
        check({"a": "2024-05-01"}, ("a", "equals", expected))


def test_score_is_the_ratio_of_assertions(check):
    judgement = check({"a": 1}, ("a", "equals", 1), ("a", "equals", 2), ("b", "exists"), ("a", "gt", 0))
    assert judgement.score == 0.5
    assert "a equals 2: found 1" in judgement.details
    assert "b exists: found nothing (or null)" in judgement.details


def test_values_are_shown_as_json(check):
    details = check({"a": [True, None, "é"]}, ("a", "equals", {"b": False})).details
    assert details == 'a equals {"b": false}: found [true, null, "é"]'
    assert "None" not in check({"l": [1, "a"]}, ("sort(l)", "exists")).details


def test_valid_json_is_enough_without_assertions(check):
    assert check("[]").score == 1
    assert check("null").score == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'a': 1}",
        "{} {}",
        "NaN",
        '{"a": Infinity}',
        "[-Infinity]",
        "\ufeff{}",
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "1" * 5000,
        "// c\n{}",
        "[1,]",
    ],
)
def test_text_that_is_no_json_fails(check, text):
    judgement = check(text)
    assert judgement.score == 0
    assert judgement.reason.startswith("x.json is not JSON: ")


def test_name_given_twice_is_mentioned_and_the_last_counts(check):
    judgement = check('{"a": 1, "b": {"a": 1, "a": 2}}', ("b.a", "equals", 2))
    assert judgement.score == 1
    assert "'a' named twice" in judgement.reason


def test_many_equal_names_take_no_time(check):
    text = "{" + ",".join(f'"{n}": 1, "{n}": 2' for n in range(30_000)) + "}"
    judgement = bounded(lambda: check(text), 2)
    assert judgement.score == 1
    assert len(judgement.reason) < 1000


HUGE = (
    '{"a": 1e400, "b": -1e400, "i": ' + "9" * 4000 + ', "s": "x", "n": null, "l": [1, "a"], "h": [' + "9" * 4000 + "]}"
)


@pytest.mark.parametrize(
    "expression",
    [
        *("floor(a)", "ceil(a)", "ceil(b)", "abs(b)", "avg(h)", "sum(h)", "sort(l)", "max(l)", "sum([a, b])"),
        *("to_number(s)", "keys(n)", "length(a)", "join(s, l)", "sort_by(l, &x)", "max_by(l, &@)", "avg([a, i])"),
        *("to_string(a)", "i", "reverse(a)", "map(&floor(@), [a])", "a > i"),
    ],
)
@pytest.mark.parametrize("assertion", [("equals", "none"), ("gt", "none"), ("type", "boolean"), ("regex", "^none")])
def test_no_value_of_the_agent_is_an_error(check, expression, assertion):
    judgement = check(HUGE, (expression, *assertion))
    assert judgement.score == 0 or (expression, assertion[0]) == ("a > i", "type")
    assert judgement.score or expression in judgement.details


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
ONE_ARGUMENT = ["abs", "avg", "ceil", "floor", "keys", "length", "max", "min", "not_null", "reverse", "sort", "sum"]


@given(JSON_LIKE, st.sampled_from([*ONE_ARGUMENT, "to_array", "to_number", "to_string", "type", "values"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_function_makes_an_error_of_a_value(check, value, function):
    text = json.dumps(value).replace("Infinity", "1e999")
    assert 0 <= check(text, (f"{function}(@)", "exists")).score <= 1


def test_a_deep_value_is_no_error(check):
    deep = '{"a": ' * 900 + "1" + "}" * 900
    assert check(deep, ("a", "equals", 1)).score == 0
    assert check(deep, ("a", "exists")).score == 1


@pytest.fixture
def schema(check, workspace):
    """Judge a JSON text by a schema."""

    def run(value, schema, *assertions):
        (workspace / "schema.json").write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return check(value, *assertions, json_schema="schema.json")

    return run


KEYWORDS = """$ref $schema $id $anchor $defs $dynamicRef additionalProperties allOf anyOf const contains
dependentRequired dependentSchemas else enum exclusiveMaximum format if items maxContains maxItems maxLength maximum
minContains minProperties multipleOf not oneOf pattern patternProperties prefixItems properties propertyNames required
then type unevaluatedItems unevaluatedProperties uniqueItems""".split()

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
}


def test_schema_is_one_part_of_the_score(schema):
    assert schema({"name": "x"}, PERSON).score == 1
    assert schema({"name": "x"}, PERSON, ("name", "equals", "x"), ("name", "equals", "y")).score == 0.75


def test_violated_schema_is_zero_whatever_the_assertions(schema):
    judgement = schema({"name": 1, "age": "x"}, PERSON, ("name", "equals", 1))
    assert judgement.score == 0
    assert "$.name" in judgement.details
    assert "$.age" in judgement.details


def test_true_is_no_integer_in_a_schema(schema):
    assert schema({"name": "x", "age": True}, PERSON).score == 0


@pytest.mark.parametrize(
    "bad",
    [
        "not json{",
        "[]",
        '"text"',
        {"type": "no_such_type"},
        {"pattern": "(", "type": "string"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$ref": "other.json"},
        {"$ref": "file:///etc/passwd"},
        {"$ref": "#/$defs/nowhere"},
        {"$ref": "#"},
        {"$schema": 5},
        {"type": NotImplemented},
    ],
)
def test_schema_that_cannot_be_used_fails_with_the_reason(schema, bad):
    if isinstance(bad, dict) and bad.get("type") is NotImplemented:
        bad = '{"type": NaN}'
    judgement = schema('"a"', bad)
    assert judgement.score == 0
    assert "schema" in judgement.reason


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ('{"a": 1e400}', {"properties": {"a": {"multipleOf": 2}}}),
        ('{"a": 1e400}', {"properties": {"a": {"multipleOf": 0.1}}}),
        ('{"a": -1e400}', {"properties": {"a": {"type": "integer", "multipleOf": 3}}}),
        ("9" * 400, {"multipleOf": 0.5}),
        ("9" * 4000, {"multipleOf": 0.3}),
        ("5", '{"multipleOf": 0}'),
        ('{"a": 1e400}', {"properties": {"a": {"maximum": 5, "type": "integer"}}}),
        (
            '{"a": ' * 900 + "1" + "}" * 900,
            {"$defs": {"x": {"properties": {"a": {"$ref": "#/$defs/x"}}}}, "$ref": "#/$defs/x"},
        ),
        ("[" * 900 + "]" * 900, {"uniqueItems": True, "enum": [1]}),
    ],
)
def test_no_value_makes_an_error_of_a_schema(schema, text, bad):
    judgement = schema(text, bad)
    assert judgement.score == 0
    assert "does not follow schema.json: " in judgement.reason
    assert len(judgement.reason) < 1000


@given(JSON_LIKE, JSON_LIKE, st.sampled_from(KEYWORDS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_keyword_makes_an_error_of_a_value(schema, value, argument, keyword):
    text, rules = (json.dumps(item).replace("Infinity", "1e999") for item in (value, {keyword: argument}))
    assert schema(text, rules).score in (0, 1)


def test_missing_schema_fails(check):
    assert check("{}", json_schema="nowhere.json").score == 0


def test_reference_inside_the_schema_and_to_its_draft_work(schema):
    inner = {"$defs": {"n": {"type": "number"}}, "items": {"$ref": "#/$defs/n"}}
    assert schema([1, 2], inner).score == 1
    assert schema([1, "x"], inner).score == 0
    draft = "http://json-schema.org/draft-07/schema#"
    assert schema({"type": "string"}, {"$schema": draft, "$ref": draft}).score == 1
    assert schema({"type": 5}, {"$schema": draft, "$ref": draft}).score == 0


@given(VALUES)
def test_what_python_writes_is_parsed_to_the_same(value):
    parsed, twice = parse(json.dumps(value))
    assert equal(parsed, value)
    assert twice == ()


@given(VALUES, VALUES)
def test_equality_is_that_of_canonical_text(left, right):
    def canonical(value):
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, list):
            return [canonical(item) for item in value]
        if isinstance(value, dict):
            return {key: canonical(item) for key, item in value.items()}
        return value

    same = json.dumps(canonical(left), sort_keys=True) == json.dumps(canonical(right), sort_keys=True)
    assert equal(left, right) == same


@given(st.text())
def test_any_text_is_parsed_or_refused(text):
    with contextlib.suppress(NotJson):
        parse(text)
