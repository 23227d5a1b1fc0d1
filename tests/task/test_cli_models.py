"""cli_called, flag predicates, recorded tools and the rules that pick their answers."""

from __future__ import annotations

from typing import Any

import pytest

from .samples import criterion, criterion_problems, load, load_criterion, problems

LOG: dict[str, Any] = {"log": "mocks/calls.jsonl"}


@pytest.mark.parametrize(
    ("fields", "key", "expected"),
    [
        ({}, "", "at least one of verb"),
        ({"tool": ""}, "tool", "empty"),
        ({"verb": " \t"}, "verb", "blank"),
        ({"verb": ["a", "b"]}, "verb", "expected text, found a list"),
        ({"verb": "a", "verb_any_of": ["b"]}, "verb_any_of", "exclude"),
        ({"verb_any_of": []}, "verb_any_of", "at least one"),
        ({"verb_any_of": ["a", " "]}, "verb_any_of[1]", "blank"),
        ({"verb_any_of": ["a b", "a b"]}, "verb_any_of[1]", "the same"),
        ({"verb_any_of": ["a", "a  b"]}, "verb_any_of[1]", "already covered"),
        ({"verb_any_of": ["a b", "a"]}, "verb_any_of[0]", "already covered"),
        ({"verb": "get -o"}, "verb", "'-o' is a flag"),
        ({"verb": "get --output json"}, "verb", "'--output' is a flag"),
        ({"verb": "a", "positional": []}, "positional", "leave the key out"),
        ({"verb": "a", "positional": [1]}, "positional[0]", "quotes"),
        ({"verb": "a", "min_count": 0}, "min_count", "never fail"),
        ({"verb": "a", "min_count": 2, "max_count": 1}, "max_count", "at least min_count"),
        ({"verb": "a", "flags": {"x": 1}}, "flags.x", "quotes"),
        ({"verb": "a", "flags": {"x": {}}}, "flags.x", "exactly one"),
        ({"verb": "a", "flags": {"x": {"equals": "a", "contains": "b"}}}, "flags.x", "equals and contains"),
        ({"verb": "a", "flags": {"x": {"matches_regex": "("}}}, "flags.x.matches_regex", "regular"),
        ({"verb": "a", "flags": {"x": {"matches_regex": "a", "flags": 99999999}}}, "flags.x.flags", "flags 99999999"),
        ({"verb": "a", "flags": {"x": {"equals": "a", "flags": 2}}}, "flags.x.flags", "matches_regex"),
        ({"verb": "a", "flags": {"x": {"any_of": []}}}, "flags.x.any_of", "at least one"),
        ({"verb": "a", "flags": {"x": {"absent": False}}}, "flags.x.absent", "expected true, found false"),
        ({"verb": "a", "flags": {"x": {"is": "a"}}}, "flags.x.is", "unknown key"),
        ({"verb": "a", "flags": {"--x": "1"}}, "flags.--x", "without dashes"),
        ({"verb": "a", "flags": {"x": {"equals": "1", "aliases": ["x"]}}}, "flags.x.aliases", "own alias"),
        ({"verb": "a", "flags": {"y": {"present": True}, "yes": {"present": True, "aliases": ["y"]}}}, "flags.yes",
         "claimed by 'y'"),
        ({"verb": "a", "flags": {"output": "json"}}, "flags.output", "ignore_flags"),
        ({"verb": "a", "flags": {"o": {"equals": "json", "aliases": ["output"]}}}, "flags.o", "ignore_flags"),
        ({"verb": "a", "log": "/tmp/calls"}, "log", "absolute"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_problem_at_its_key(fields: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = criterion_problems("cli_called", **{**LOG, **fields})
    assert problem.key == f"success_criteria[0].{key}".rstrip(".")
    assert expected in problem.message


@pytest.mark.parametrize(
    "fields",
    [
        {"verb": "head -1"},
        {"verb": "seek -1.5"},
        {"verb": "cat -"},
        {"verb_any_of": ["a b", "a c"]},
        {"positional": ["x"]},
        {"flags": {"force": {"absent": True}}},
        {"flags": {"output": "json"}, "ignore_flags": []},
        {"tool": "uip", "min_count": 0, "max_count": 0},
        {"flags": {"m": {"matches_regex": "a.b", "flags": 16, "aliases": ["model"]}}},
        {"flags": {"x": {"any_of": ["a", "b"]}, "y": {"contains": "z"}, "z": "plain"}},
    ],
)
def test_what_an_author_may_write_loads(fields: dict[str, Any]) -> None:
    assert criterion_problems("cli_called", **LOG, **fields) == ()


def test_text_is_an_equals_predicate() -> None:
    flags = load_criterion("cli_called", **LOG, flags={"m": "pro", "q": {"absent": True}}).flags
    assert flags["m"].equals == "pro"
    assert flags["m"].takes_value
    assert not flags["q"].takes_value


TEMPLATE = [{"type": "template_dir", "path": "x"}]
RECORDED = [{"tool": "uip"}, {"tool": "curl"}]


@pytest.mark.parametrize(
    ("sandbox", "fields", "errors", "warnings"),
    [
        ({}, {"tool": "uip"}, ["success_criteria[0]"], []),
        ({"mock_path_dirs": ["m"]}, {"tool": "uip"}, [], ["success_criteria[0]"]),
        ({"template_sources": TEMPLATE}, {"tool": "uip"}, [], ["success_criteria[0]"]),
        ({}, {"tool": "uip", "log": "m/calls.jsonl"}, [], []),
        ({"record_cli": RECORDED}, {"tool": "uip"}, [], []),
        ({"record_cli": RECORDED}, {"verb": "a"}, [], []),
        ({"record_cli": RECORDED}, {"tool": "upi"}, ["success_criteria[0].tool"], []),
        ({"record_cli": RECORDED, "mock_path_dirs": ["m"]}, {"tool": "upi"}, [], ["success_criteria[0].tool"]),
        ({"record_cli": RECORDED}, {"tool": "upi", "log": "m/calls.jsonl"}, [], []),
        ({"record_cli": RECORDED}, {"tool": "upi", "log": "cli_mocks/calls.jsonl"}, ["success_criteria[0].tool"], []),
    ],
)
def test_calls_must_be_recorded_by_somebody(
    sandbox: dict[str, Any], fields: dict[str, Any], errors: list[str], warnings: list[str]
) -> None:
    changes: dict[str, Any] = {"success_criteria": [criterion("cli_called", **fields)], "sandbox": sandbox}
    assert [problem.key for problem in problems(**changes)] == errors
    if not errors:
        assert [warning.key for warning in load(**changes).warnings] == warnings


def _rules(*matches: Any) -> dict[str, Any]:
    return {"sandbox": {"record_cli": [{"tool": "uip", "responses": [{"when": when} for when in matches]}]}}


@pytest.mark.parametrize(
    ("matches", "rule", "expected"),
    [
        ([{}], 0, "at least one of verb"),
        (["ixp get"], 0, "expected a mapping, for instance {verb: 'ixp get'}"),
        ([{"verb": "a --b"}], 0, "is a flag"),
        ([{"verb": "a", "min_count": 1}], 0, "unknown key"),
        ([{"verb": "a"}, {"verb": "a"}], 1, "responses[0]"),
        ([{"positional": ["x"]}, {"verb": "b"}, {"positional": ["x"]}], 2, "responses[0]"),
        ([{"verb": "a"}, {"verb": "a b"}], 1, "never reached"),
        ([{"verb": "a"}, {"verb_any_of": ["a b", "a c"]}], 1, "never reached"),
        ([{"verb": "a"}, {"verb": "x"}, {"verb_any_of": ["a b", "x c"]}], 2, "never reached"),
        ([{"verb": "a"}, {"verb": "a b", "positional": ["x"]}], 1, "never reached"),
        ([{"verb": "a"}, {"verb": "a b", "flags": {"f": {"present": True}}}], 1, "never reached"),
    ],
)
def test_rules_that_cannot_answer_are_refused(matches: list[Any], rule: int, expected: str) -> None:
    (problem,) = problems(**_rules(*matches))
    assert problem.key.startswith(f"sandbox.record_cli[0].responses[{rule}].when")
    assert expected in problem.message


@pytest.mark.parametrize(
    "matches",
    [
        [{"verb": "a b"}, {"verb": "a"}],
        [{"verb": "a", "flags": {"o": "j"}}, {"verb": "a b"}],
        [{"verb": "a", "value_flags": []}, {"verb": "a b"}],
        [{"verb": "a"}, {"verb": "a b", "flags": {"profile": "p"}}],
        [{"verb": "a"}, {"verb_any_of": ["a b", "c"]}],
        [{"flags": {"output": "json"}}],
        [{"verb": "ab"}, {"verb": "abc"}],
    ],
)
def test_rules_that_can_answer_load(matches: list[Any]) -> None:
    assert problems(**_rules(*matches)) == ()


@pytest.mark.parametrize(
    ("entry", "key", "expected"),
    [
        ({"exit_code": 256}, "exit_code", "at most 255"),
        ({"exit_code": -1}, "exit_code", "at least 0"),
        ({"exit_code": True}, "exit_code", "number"),
        ({"stdout": "a\0b"}, "stdout", "NUL"),
        ({"stderr": 5}, "stderr", "quotes"),
        ({"mode": "x"}, "mode", "unknown key"),
        ({"responses": [{"when": {"verb": "a"}, "exit_code": 999}]}, "responses[0].exit_code", "at most 255"),
    ],
)
def test_a_recorded_tool_is_checked(entry: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(sandbox={"record_cli": [{"tool": "uip", **entry}]})
    assert problem.key == f"sandbox.record_cli[0].{key}"
    assert expected in problem.message


@pytest.mark.parametrize(("second", "expected"), [("uip", "twice"), ("UIP", "'uip' where case is folded")])
def test_a_tool_is_recorded_once(second: str, expected: str) -> None:
    (problem,) = problems(sandbox={"record_cli": [{"tool": "uip"}, {"tool": "x"}, {"tool": second}]})
    assert problem.key == "sandbox.record_cli[2].tool"
    assert expected in problem.message
