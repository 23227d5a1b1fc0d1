"""Rules that can never answer: what is told, what loads, and that nothing is told of a rule that could answer."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pytest_codereval.recorder.argv import matches, pattern_of
from pytest_codereval.recorder.options import Option
from pytest_codereval.recorder.texts import text_test
from pytest_codereval.task.cli_models import CliMatch
from pytest_codereval.task.option_models import DeclaredFlags
from pytest_codereval.task.rule_order import covered, covers

from .samples import problems


def tool(**keys: Any) -> dict[str, Any]:
    return {"sandbox": {"record_cli": [{"tool": "uip", "set_state": {"x": "y"}, **keys}]}}


PRESENT = {"f": {"present": True}}
ABSENT = {"f": {"absent": True}}
ALIASED = {"force": {"arity": 0, "aliases": ["f"]}, "other": 1}


@pytest.mark.parametrize(
    ("options", "first", "second"),
    [
        ({}, {"verb": "a", "positional": ["x"]}, {"verb": "a", "positional": ["x", "y"]}),
        ({}, {"verb": "a", "positional": ["x"]}, {"verb": "a x"}),
        ({}, {"verb": "a", "flags": PRESENT}, {"verb": "a b", "flags": PRESENT}),
        ({}, {"verb": "a"}, {"verb": "a", "nth": 2}),
        ({}, {"verb": "a"}, {"verb": "a", "state": {"x": "y"}}),
        ({}, {"verb": "a", "nth": 2}, {"verb": "a", "nth": 2}),
        ({}, {"stdin": "x"}, {"stdin": {"equals": "x"}}),
        ({}, {"flags": {"f": {"any_of": ["1", "2"]}}}, {"flags": {"f": "2"}}),
        ({"f": 1}, {"verb": "a"}, {"verb": "a", "flags": {"f": "1"}}),
        ({"f": 1}, {"verb": "a", "flags": PRESENT}, {"verb": "a", "flags": {"f": "1"}}),
        ({}, {"verb": "p", "state": {"x": "y"}}, {"verb": "p", "state": {"x": "y"}, "nth": 1}),
        ({}, {"verb": "p", "env": {"A": "y"}}, {"verb": "p q", "env": {"A": "y", "B": "z"}, "cwd": "."}),
        ({}, {"state": {"x": {"present": True}}}, {"verb": "p", "state": {"x": {"contains": "y"}}}),
        ({}, {"cwd": {"any_of": ["a", "b", "c"]}}, {"verb": "p", "cwd": {"any_of": ["b", "a"]}}),
        ({}, {"stdin": {"contains": "a"}}, {"stdin": {"any_of": ["ab", "ca"]}, "nth": 3}),
        ({}, {"flags": {"f": {"any_of": ["a", "b", "c"]}}}, {"flags": {"f": {"any_of": ["a", "b"]}}}),
        (ALIASED, {"flags": {"force": {"present": True}}}, {"verb": "x", "flags": PRESENT}),
        (ALIASED, {"verb": "x", "flags": PRESENT}, {"verb": "x", "flags": {"force": {"present": True}}}),
        (ALIASED, {"flags": ABSENT}, {"verb": "x", "flags": {"force": {"absent": True}, "other": "1"}}),
    ],
)
def test_a_rule_behind_one_that_answers_all_its_calls_is_refused(
    options: dict[str, Any], first: dict[str, Any], second: dict[str, Any]
) -> None:
    (problem,) = problems(**tool(options=options, responses=[{"when": first}, {"when": second}]))
    assert problem.key == "sandbox.record_cli[0].responses[1].when"
    assert "responses[0] answers all of these calls" in problem.message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"when": {"verb": "a", "nth": 1}}, {"when": {"verb": "a", "nth": 2}}),
        ({"when": {"verb": "a", "nth": 1}}, {"when": {"verb": "a"}}),
        ({"when": {"verb": "a", "state": {"x": "y"}}}, {"when": {"verb": "a"}}),
        ({"when": {"verb": "a", "cwd": "."}}, {"when": {"verb": "a b"}}),
        ({"when": {"verb": "a"}, "handler": "uip"}, {"when": {"verb": "a"}}),
        ({"when": {"verb": "a", "state": {"x": "y"}, "nth": 1}}, {"when": {"verb": "a", "state": {"x": "y"}}}),
        ({"when": {"verb": "a", "nth": 1}}, {"when": {"verb": "a b", "nth": 1}}),
        ({"when": {"state": {"x": "y"}}, "handler": "uip"}, {"when": {"state": {"x": "y"}, "nth": 1}}),
        ({"when": {"state": {"x": {"any_of": ["a", "b"]}}}}, {"when": {"state": {"x": {"any_of": ["a", "c"]}}}}),
        ({"when": {"state": {"x": "y"}}}, {"when": {"env": {"x": "y"}}}),
        ({"when": {"cwd": {"contains": "ab"}}}, {"when": {"cwd": {"contains": "a"}}}),
        ({"when": {"verb": "a"}, "sequence": [{}, {"handler": "uip"}]}, {"when": {"verb": "a"}}),
        ({"when": {"verb": "a", "flags": PRESENT}}, {"when": {"verb": "a", "flags": {"f": "1"}}}),
        ({"when": {"flags": ABSENT}}, {"when": {"flags": {**ABSENT, "force": {"present": True}}}}),
    ],
)  # fmt: skip
def test_a_rule_that_may_still_answer_loads(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert problems(**tool(responses=[first, second])) == ()


TESTS: tuple[Any, ...] = (
    *("a", {"contains": "a"}, {"any_of": ["a", "b"]}, {"any_of": ["b", "a", "c"]}, {"matches_regex": "a"}),
    *({"present": True}, {"absent": True}),
)
FLAGS: list[dict[str, Any]] = [{}, *({name: test} for name in ("f", "g", "force") for test in TESTS)]
TAILS = [tail for length in range(4) for tail in itertools.product(["a", "b", "-f", "-fg", "-force"], repeat=length)]
OPTIONS = (Option(("f",), 1), Option(("force", "g"), 0))


def _match(positional: list[str], flags: dict[str, Any]) -> CliMatch:
    keys = {"verb": "v", "positional": positional, "flags": flags}
    return CliMatch.model_validate({key: value for key, value in keys.items() if value})


@pytest.mark.parametrize("options", [(), OPTIONS], ids=["undeclared", "declared"])
@pytest.mark.parametrize(("wide", "narrow"), [([], []), (["b"], ["b"]), (["b"], ["b", "a"])])
def test_a_rule_that_is_called_unreachable_matches_nothing_that_the_earlier_one_does_not(
    options: tuple[Option, ...], wide: list[str], narrow: list[str]
) -> None:
    declared = DeclaredFlags("uip", tuple(option.names for option in options))
    covering = 0
    for flags, more in itertools.product(FLAGS, FLAGS):
        earlier = _match(wide, flags)
        for later in (_match(narrow, more), _match(narrow, {**flags, **more})):
            if covers(earlier, later, declared):
                covering += 1
                first, second = pattern_of(earlier, options), pattern_of(later, options)
                assert all(matches(first, ["v", *tail]) for tail in TAILS if matches(second, ["v", *tail]))
    assert covering > 60


TEXTS = (None, "", "a", "b", "ab", "abc", "x")
ASKED = (
    *TESTS,
    *("", "b", {"contains": ""}, {"contains": "ab"}, {"any_of": ["ab", "abc"]}, {"any_of": ["a"]}),
    *({"matches_regex": "^a"}, {"matches_regex": "A", "flags": 2}),
)


@pytest.mark.parametrize("facet", ["stdin", "cwd", "env", "state"])
def test_a_text_that_is_called_covered_satisfies_the_earlier_predicate(facet: str) -> None:
    def rule(test: Any) -> CliMatch:
        return CliMatch.model_validate({facet: test if facet in ("stdin", "cwd") else {"x": test}})

    asked = [test for test in ASKED if facet != "cwd" or (test and not {"present", "absent"} & set(test))]
    covering = 0
    for first, second in itertools.product(asked, asked):
        if covers(rule(first), rule(second)):
            covering += 1
            assert all(text_test(first).holds(text) for text in TEXTS if text_test(second).holds(text))
    assert covering > 20


def test_a_thousand_rules_that_differ_in_circumstances_are_compared_in_time() -> None:
    rules = [CliMatch.model_validate({"verb": "a", "stdin": f"x{number}", "nth": None}) for number in range(1000)]
    assert covered(rules) == []
