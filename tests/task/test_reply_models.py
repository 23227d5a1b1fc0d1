"""What recorded tools answer: the keys of replies, tools and their options, and which of them exclude each other."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.task.cli_models import CliMatch
from pytest_codereval.task.models import RecordedTool, Task
from pytest_codereval.task.reply_models import ReplyModel

from .samples import load, problems

TOOL = "sandbox.record_cli[0]"
WHEN = {"verb": "a"}


def tool(**keys: Any) -> dict[str, Any]:
    return {"sandbox": {"record_cli": [{"tool": "uip", **keys}]}}


def rule(**keys: Any) -> dict[str, Any]:
    return tool(responses=[{"when": WHEN, **keys}])


def loaded_tool(**keys: Any) -> RecordedTool:
    (entry,) = load(**tool(**keys)).task.sandbox.record_cli or ()
    return entry


def loaded_rule(**keys: Any) -> ReplyModel:
    return loaded_tool(responses=[{"when": WHEN, **keys}]).responses[0]


@pytest.mark.parametrize(
    ("reply", "key", "expected"),
    [
        ({"stdout": "a", "json": 1}, "json", "stdout and json exclude"),
        ({"stdout": "", "json": None}, "json", "stdout and json exclude"),
        ({"stdout": "a", "stdout_file": "f"}, "stdout_file", "exclude"),
        ({"json": 1, "json_file": "f"}, "json_file", "json and json_file exclude"),
        ({"stderr": "a", "stderr_file": "f"}, "stderr_file", "exclude"),
        ({"stdout_file": " "}, "stdout_file", "found none"),
        ({"json": {"on": [datetime.date(2024, 1, 1)]}}, "json.on[0]", "put it in quotes"),
        ({"delay": -1}, "delay", "at least 0"),
        ({"delay": 3601}, "delay", "at most 3600"),
        ({"delay": True}, "delay", "number"),
        ({"exit_code": 300}, "exit_code", "at most 255"),
        ({"set_state": {"n": 1}}, "set_state.n", "quotes"),
        ({"sequence": []}, "sequence", "at least one"),
        ({"sequence": [{}], "exit_code": 0}, "exit_code", "sequence and exit_code exclude"),
        ({"sequence": [{}], "template": True}, "template", "exclude"),
        ({"sequence": [{"stdout": "a"}, {"sequence": [{}]}]}, "sequence[1].sequence", "no sequence in a sequence"),
        ({"sequence": [{"stdot": "a"}]}, "sequence[0].stdot", "did you mean 'stdout'?"),
        ({"passthrough": True, "stdout": "x"}, "stdout", "passthrough and stdout exclude"),
        ({"passthrough": True, "exit_code": 0}, "exit_code", "exclude"),
        ({"passthrough": True, "set_state": {"a": "b"}}, "set_state", "exclude"),
        ({"passthrough": True, "handler": "uip"}, "handler", "exclude"),
        ({"passthrough": "yes please"}, "passthrough", "true or false"),
        ({"handler": "uip", "stdout": "x"}, "stdout", "handler and stdout exclude"),
        ({"handler": "uip", "delay": 1}, "delay", "exclude"),
        ({"handler": "h.py"}, "handler", "file.py:function"),
        ({"handler": "h.py:"}, "handler", "file.py:function"),
        ({"handler": ":uip"}, "handler", "file.py:function"),
        ({"handler": "a b"}, "handler", "fixture"),
        ({"jsn": 1}, "jsn", "did you mean 'json'?"),
        ({"json_value": 1}, "json_value", "unknown key"),
        ({"effects": [{"content": "x"}]}, "effects[0]", "either write or copy"),
        ({"effects": [{"write": "a", "copy": "b"}]}, "effects[0]", "either write or copy"),
        ({"effects": [{"write": "a"}]}, "effects[0]", "content or content_file"),
        ({"effects": [{"write": "a", "content": "", "content_file": "f"}]}, "effects[0]", "content or content_file"),
        ({"effects": [{"write": "a", "contents": "b"}]}, "effects[0].contents", "did you mean 'content'?"),
        ({"effects": [{"copy": "a"}]}, "effects[0].to", "missing"),
        ({"effects": [{"copy": "a", "copy_from": "a", "to": "b"}]}, "effects[0].copy_from", "unknown key"),
        ({"effects": [{"write": "../a", "content": ""}]}, "effects[0].write", "leaves the workspace"),
        ({"effects": [{"write": "/etc/a", "content": ""}]}, "effects[0].write", "absolute"),
        ({"effects": [{"write": "./", "content": ""}]}, "effects[0].write", "workspace itself"),
        ({"effects": [{"write": "{{ verb }}", "content": ""}]}, "effects[0].write", "template: true"),
        ({"template": True, "effects": [{"write": "../a", "content": ""}]}, "effects[0].write", "leaves"),
        ({"template": True, "effects": [{"copy": "{{ verb }}", "to": "a"}]}, "effects[0].copy", "by the author"),
        ({"template": True, "stdout": "{{ verb"}, "stdout", "not a jinja2 template"),
        ({"template": True, "stdout": "{{ vreb }}"}, "stdout", "did you mean 'verb'?"),
        ({"template": True, "stderr": "{{ verb | shout }}"}, "stderr", "not a jinja2 template"),
        ({"template": True, "json": {"a": [1, "{{ x }}"]}}, "json.a[1]", "does not know 'x'"),
        ({"template": True, "set_state": {"k": "{{ x }}"}}, "set_state.k", "does not know 'x'"),
        ({"template": True, "effects": [{"write": "a", "content": "{{ x }}"}]}, "effects[0].content", "'x'"),
        ({"template": True, "effects": [{"copy": "a", "to": "{{ x }}"}]}, "effects[0].to", "does not know 'x'"),
        ({"template": True, "stdout": "{% include 'a' %}"}, "stdout", "include"),
        ({"template": True, "stdout": "{{ env }}"}, "stdout", "env.NAME"),
        ({"template": True, "stdout": "{{ env[verb] }}"}, "stdout", "env.NAME"),
        ({"template": True, "stdout": "{{ env.get('A') }}"}, "stdout", "env.NAME"),
        ({"template": True, "stdout": "{{ env['A-B'] }}"}, "stdout", "no name of an environment variable"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_reply_is_one_problem_at_its_key(reply: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(**rule(**reply))
    assert problem.key == f"{TOOL}.responses[0].{key}"
    assert expected in problem.message


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"stdout": "a", "stderr": "b", "exit_code": 3, "delay": 0.5},
        {"json": None},
        {"json": [1, 2.5, {"a": None}], "stderr": "warning"},
        {"passthrough": True, "delay": 1},
        {"passthrough": False, "stdout": "x"},
        {"handler": "uip"},
        {"handler": "package.module:uip"},
        {"sequence": [{"stderr": "busy", "exit_code": 1}, {"passthrough": True}, {"handler": "uip"}]},
        {"set_state": {"login": "yes", "old": None}},
        {"template": True, "stdout": "{{ flags.name or positional[0] }} {{ env.A }} {{ 'B' in env }}"},
        {"template": True, "stdout": "{% for word in argv %}{{ loop.index }}{{ word|upper }}{% endfor %}"},
        {"template": True, "stdout": "{{ stdin|length }} {{ range(nth) }}"},
        {"template": True, "effects": [{"write": "{{ flags.o }}/a", "content": "{{ state.x }}"}]},
        {"stdout": "{{ not a template"},
    ],
)  # fmt: skip
def test_what_a_reply_may_hold_loads(reply: dict[str, Any]) -> None:
    assert problems(**rule(**reply)) == ()


def test_null_is_json_and_its_absence_is_not() -> None:
    assert loaded_rule(json=None).has_json
    assert not loaded_rule().has_json


def test_a_reply_survives_being_dumped_and_read_again() -> None:
    task = load(
        **tool(
            options={"output": {"aliases": ["o"]}},
            responses=[
                {"when": {"verb": "a", "nth": 2, "env": {"A": "b"}}, "json": None},
                {"when": {"verb": "b"}, "sequence": [{"stdout": "x"}, {"passthrough": True}]},
                {"when": {"verb": "c"}, "effects": [{"write": "f", "content": "x"}]},
                {"when": {"stdin": {"contains": "x"}}, "handler": "uip"},
            ],
            passthrough=True,
        )
    ).task
    again = Task.model_validate(task.model_dump(mode="json"))
    assert again == task
    (entry,) = again.sandbox.record_cli or ()
    assert [response.has_json for response in entry.responses] == [True, False, False, False]


@pytest.mark.parametrize(
    ("keys", "key", "expected"),
    [
        ({"passthrough": True, "stdout": "x"}, "stdout", "passthrough and stdout exclude"),
        ({"passthrough": True, "exit_code": 1}, "exit_code", "exclude"),
        ({"passthrough": True, "unmatched": "fail"}, "unmatched", "every call is answered"),
        ({"unmatched": "error"}, "unmatched", "nothing to match"),
        ({"unmatched": "fial", "handler": "uip"}, "unmatched", "did you mean 'fail'?"),
        ({"sequence": [{}], "stdout": "x"}, "stdout", "exclude"),
        ({"record_to": "c.jsonl"}, "record_to", "nothing is ever recorded"),
        ({"responses_from": []}, "responses_from", "at least one"),
        ({"responses_from": 5}, "responses_from", "expected a list"),
        ({"template": True, "stdout": "{{ x }}"}, "stdout", "does not know 'x'"),
        ({"options": {"--output": 1}}, "options.--output", "without dashes"),
        ({"options": {"a b": 1}}, "options.a b", "no name of a flag"),
        ({"options": {"output": -1}}, "options.output.arity", "at least 0"),
        ({"options": {"output": True}}, "options.output", "how many arguments"),
        ({"options": {"output": "one"}}, "options.output", "how many arguments"),
        ({"options": {"output": {"arty": 1}}}, "options.output.arty", "did you mean 'arity'?"),
        ({"options": {"output": {"aliases": ["o"]}, "o": 0}}, "options.o", "declared twice (first by 'output')"),
        ({"options": {"output": {"aliases": ["output"]}}}, "options.output.aliases[0]", "declared twice"),
        ({"options": {"output": {"aliases": ["-o"]}}}, "options.output.aliases[0]", "without dashes"),
    ],
)
def test_a_mistake_in_a_tool_is_one_problem_at_its_key(keys: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(**tool(**keys))
    assert problem.key == f"{TOOL}.{key}"
    assert expected in problem.message


@pytest.mark.parametrize(
    "keys",
    [
        {"handler": "uip", "stdout": "else", "exit_code": 3, "unmatched": "fail"},
        {"handler": "uip", "passthrough": True, "record_to": "c.jsonl", "replay_from": "c.jsonl"},
        {"handler": "uip", "sequence": [{"stdout": "x"}]},
        {"responses": [{"when": WHEN, "passthrough": True}], "record_to": "c.jsonl"},
        {"responses": [{"when": WHEN}], "unmatched": "error"},
        {"options": {}},
    ],
)
def test_what_a_tool_may_hold_loads(keys: dict[str, Any]) -> None:
    assert problems(**tool(**keys)) == ()


def test_options_by_name_and_number() -> None:
    entry = loaded_tool(options={"output": {"aliases": ["o"]}, "yes": 0, "range": 2})
    assert entry.option_names() == ((("output", "o"), 1), (("yes",), 0), (("range",), 2))
    assert loaded_tool().exit_code == 1


@pytest.mark.parametrize(
    ("when", "key"),
    [
        ({"verb": "a", "value_flags": ["x"]}, "value_flags"),
        ({"verb": "a", "ignore_flags": ["x"]}, "ignore_flags"),
        ({"flags": {"x": {"equals": "1", "aliases": ["y"]}}}, "flags.x.aliases"),
    ],
)
def test_what_options_say_is_said_nowhere_else(when: dict[str, Any], key: str) -> None:
    assert problems(**tool(responses=[{"when": when}])) == ()
    (problem,) = problems(**tool(options={"x": 1}, responses=[{"when": when}]))
    assert problem.key == f"{TOOL}.responses[0].when.{key}"
    assert "declares its options" in problem.message


@pytest.mark.parametrize(
    ("when", "key", "expected"),
    [
        ({"nth": 0}, "nth", "more than 0"),
        ({"cwd": {"present": True}}, "cwd", "every call has a directory"),
        ({"cwd": "sub/"}, "cwd", "expected 'sub'"),
        ({"cwd": ""}, "cwd", "expected '.'"),
        ({"cwd": {"any_of": [".", "../x"]}}, "cwd", "absolute"),
        ({"stdin": 5}, "stdin", "quotes"),
        ({"stdin": {"contains": "a", "equals": "b"}}, "stdin", "exactly one"),
        ({"stdin": {"matches_regex": "("}}, "stdin.matches_regex", "not a regular expression"),
        ({"env": {}, "verb": "a"}, "env", "leave the key out"),
        ({"state": {}}, "state", "leave the key out"),
        ({"env": {"A-B": "x"}}, "env.A-B", "no name of an environment variable"),
        ({"state": {"login": True}}, "state.login", "quotes"),
        ({"stdin": {"equals": "a", "aliases": ["x"]}}, "stdin.aliases", "unknown key"),
    ],
)
def test_a_mistake_in_when_is_one_problem_at_its_key(when: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = problems(**tool(responses=[{"when": when}]))
    assert problem.key == f"{TOOL}.responses[0].when.{key}"
    assert expected in problem.message


@pytest.mark.parametrize("when", [{"stdin": "x"}, {"cwd": "."}, {"env": {"A": "x"}}, {"state": {"a": "b"}}, {"nth": 1}])
def test_each_circumstance_makes_a_rule_by_itself(when: dict[str, Any]) -> None:
    assert problems(**tool(responses=[{"when": when}], set_state={"a": "b"})) == ()


SCALARS = ("", "a", "../x", "{{ x", "a.py:f", "${A}", None, True, -3, 0, 300)
KEYS = (*RecordedTool.keys(), *CliMatch.keys(), "when", "write", "copy", "to")
VALUES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(entry=st.dictionaries(st.sampled_from(RecordedTool.keys()), VALUES, max_size=6), response=VALUES)
def test_whatever_an_entry_holds_it_loads_or_is_told(entry: dict[str, Any], response: Any) -> None:
    for changes in (tool(responses=[response]), {"sandbox": {"record_cli": [{"tool": "uip", **entry}]}}):
        for problem in problems(**changes):
            assert problem.message
            assert problem.line >= 1
