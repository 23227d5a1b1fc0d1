"""cli_called: exit status, standard input, directory, order; command_executed: the parts of a command."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_codereval.errors import TaskFileError
from pytest_codereval.task.models import Task
from pytest_codereval.task.task_rules import tools_with_stdin
from pytest_codereval.task.trials import expand

from .samples import criterion, criterion_problems, load, load_criterion, problems

RECORDED: dict[str, Any] = {"sandbox": {"record_cli": [{"tool": "uip"}, {"tool": "curl"}]}}
DECLARED: dict[str, Any] = {
    "sandbox": {"record_cli": [{"tool": "uip", "options": {"output": 1, "x": 1}}, {"tool": "curl"}]}
}


@pytest.mark.parametrize(
    ("fields", "key", "expected"),
    [
        ({"exit_code": 256}, "exit_code[0]", "at most 255"),
        ({"exit_code": [0, True]}, "exit_code[1]", "number"),
        ({"exit_code": []}, "exit_code", "at least one"),
        ({"stdin": 1}, "stdin", "quotes"),
        ({"cwd": "a/../b"}, "cwd", "expected 'b'"),
        ({"cwd": {"absent": True}}, "cwd", "every call has a directory"),
        ({"sequence": []}, "sequence", "at least one"),
        ({"sequence": ["build"]}, "sequence[0]", "expected a mapping, for instance {verb: 'build'}"),
        ({"sequence": [{}]}, "sequence[0]", "at least one of"),
        ({"sequence": [{"verb": "a", "min_count": 1}]}, "sequence[0].min_count", "unknown key"),
        ({"sequence": [{"verb": "a", "tool": "nothing"}]}, "sequence[0].tool", "nobody records 'nothing'"),
        ({"sequence": [{"verb": "a"}], "verb": "b"}, "verb", "exclude each other"),
        ({"sequence": [{"verb": "a"}], "value_flags": ["x"]}, "value_flags", "exclude each other"),
        ({"sequence": [{"verb": "a"}], "exit_code": 0}, "exit_code", "exclude each other"),
        ({"sequence": [{"verb": "a"}], "after": "x"}, "after", "exclude each other"),
        ({"sequence": [{"verb": "a", "tool": "curl"}], "tool": "uip"}, "sequence[0].tool", "about 'uip' alone"),
        ({"verb": "a", "log": "m/calls.jsonl", "stdin": "x"}, "stdin", "only the recorder"),
        ({"log": "m/calls.jsonl", "sequence": [{"cwd": "."}]}, "sequence[0].cwd", "only the recorder"),
        ({"verb": "a", "after": "x"}, "after", "no cli_called criterion is named 'x'; give it a name"),
    ],
)
def test_a_mistake_is_one_problem_at_its_key(fields: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = criterion_problems("cli_called", RECORDED, **fields)
    assert problem.key == f"success_criteria[0].{key}"
    assert expected in problem.message


@pytest.mark.parametrize(
    "fields",
    [
        {"exit_code": 0},
        {"stdin": {"contains": "x"}},
        {"cwd": "sub/dir"},
        {"cwd": "/tmp"},
        {"sequence": [{"verb": "a"}, {"tool": "curl", "exit_code": [0, 22], "flags": {"output": "x"}}]},
        {"tool": "uip", "sequence": [{"exit_code": 0}, {"stdin": {"absent": True}}], "min_count": 0, "max_count": 0},
        {"log": "m/calls.jsonl", "exit_code": 1},
    ],
)
def test_what_an_author_may_write_loads(fields: dict[str, Any]) -> None:
    assert criterion_problems("cli_called", RECORDED, **fields) == ()


def test_one_exit_status_is_a_list_of_one() -> None:
    assert load_criterion("cli_called", RECORDED, exit_code=3).exit_code == (3,)
    assert load_criterion("cli_called", RECORDED, exit_code=[0, 3]).exit_code == (0, 3)


@pytest.mark.parametrize("sandbox", [{}, {"mock_path_dirs": ["m"]}])
def test_what_only_the_recorder_knows_needs_a_recorded_tool(sandbox: dict[str, Any]) -> None:
    (problem,) = criterion_problems("cli_called", {"sandbox": sandbox}, verb="a", stdin="x")
    assert problem.key == "success_criteria[0].stdin"
    assert "sandbox.record_cli" in problem.message


def _ordered(**fields: Any) -> list[dict[str, Any]]:
    return [
        criterion("cli_called", verb="login", name="login"),
        criterion("cli_called", verb="deploy", name="deploy", **fields),
    ]


@pytest.mark.parametrize(
    ("key", "fields", "others", "expected"),
    [
        ("after", {"after": "logn"}, [], "did you mean 'login'? (names: deploy, login)"),
        ("before", {"before": "deploy"}, [], "itself"),
        ("after", {"after": "login"}, [criterion("cli_called", verb="x", name="login")], "2 cli_called criteria"),
        ("after", {"after": "file"}, [criterion("file_exists", path="a", name="file")], "no cli_called criterion"),
        ("after", {"after": "mock"}, [criterion("cli_called", verb="x", name="mock", log="m/l")], "another log"),
    ],
)
def test_a_name_that_gives_no_order_is_told(
    key: str, fields: dict[str, Any], others: list[dict[str, Any]], expected: str
) -> None:
    (problem,) = problems(success_criteria=[*_ordered(**fields), *others], **RECORDED)
    assert problem.key == f"success_criteria[1].{key}"
    assert expected in problem.message


@pytest.mark.parametrize("keys", ["aa", "ab", "aab", "bbb", "abab", "aaaaaaaa"])
def test_a_circle_of_names_is_told_however_long_it_is(keys: str) -> None:
    names = [f"name{number}" for number in range(len(keys))]
    words = [{"a": "after", "b": "before"}[key] for key in keys]
    criteria = [
        criterion("cli_called", verb=name, name=name, **{word: names[index - 1]})
        for index, (name, word) in enumerate(zip(names, words, strict=True))
    ]
    found = problems(success_criteria=[criterion("cli_called", verb="x", after="name0"), *criteria], **RECORDED)
    assert [problem.key for problem in found] == [f"success_criteria[{n}].{w}" for n, w in enumerate(words, start=1)]
    assert all("circle" in problem.message for problem in found)


def test_an_order_by_names_loads() -> None:
    criteria = [*_ordered(after="login"), criterion("cli_called", verb="x", after="login", before="deploy")]
    assert problems(success_criteria=criteria, **RECORDED) == ()


def test_a_name_from_a_row_is_checked_with_the_row() -> None:
    def names(value: str) -> dict[str, Any]:
        return {"success_criteria": _ordered(after="${row.first}"), "dataset": {"rows": [{"id": "a", "first": value}]}}

    assert len(expand(load(**names("login"), **RECORDED))) == 1
    with pytest.raises(TaskFileError, match=r"did you mean 'login'\?"):
        expand(load(**names("logn"), **RECORDED))


@pytest.mark.parametrize(
    ("fields", "tools"),
    [
        ({"verb": "a"}, set()),
        ({"tool": "uip", "stdin": "x"}, {"uip"}),
        ({"stdin": "x"}, {"uip", "curl"}),
        ({"sequence": [{"verb": "a", "tool": "curl", "stdin": "x"}, {"verb": "b"}]}, {"curl"}),
        ({"tool": "uip", "sequence": [{"verb": "a"}, {"stdin": {"present": True}}]}, {"uip"}),
    ],
)
def test_the_tools_whose_standard_input_is_asked_for(fields: dict[str, Any], tools: set[str]) -> None:
    assert tools_with_stdin(load(success_criteria=[criterion("cli_called", **fields)], **RECORDED).task) == tools


@pytest.mark.parametrize(
    ("kind", "fields", "key"),
    [
        ("cli_called", {"tool": "uip", "value_flags": ["x"]}, "value_flags"),
        ("cli_called", {"tool": "uip", "ignore_flags": []}, "ignore_flags"),
        ("cli_called", {"tool": "uip", "flags": {"x": {"equals": "1", "aliases": ["y"]}}}, "flags.x.aliases"),
        ("cli_called", {"tool": "uip", "sequence": [{"verb": "a", "value_flags": []}]}, "sequence[0].value_flags"),
        ("command_executed", {"command": {"tool": "uip", "value_flags": []}}, "command.value_flags"),
    ],
)
def test_what_a_tool_declares_is_said_nowhere_else(kind: str, fields: dict[str, Any], key: str) -> None:
    task = {**DECLARED, "agent": {"type": "script", "steps": [{"say": "x"}]}}
    assert criterion_problems(kind, {**task, **RECORDED}, **fields) == ()
    (problem,) = criterion_problems(kind, task, **fields)
    assert problem.key == f"success_criteria[0].{key}"
    assert "declares its options" in problem.message


def test_a_tool_with_options_ignores_no_flag() -> None:
    fields = {"tool": "uip", "flags": {"output": "json"}}
    assert criterion_problems("cli_called", DECLARED, **fields) == ()
    (problem,) = criterion_problems("cli_called", DECLARED, **{**fields, "tool": "curl"})
    assert "ignore_flags" in problem.message


def test_the_criteria_of_a_tool_with_options_survive_being_dumped_and_expanded() -> None:
    criteria = [criterion("cli_called", tool="uip", verb="${row.id}", flags={"output": "json"})]
    (trial,) = expand(load(success_criteria=criteria, dataset={"rows": [{"id": "a"}]}, **DECLARED))
    assert trial.task.success_criteria[0].verb == "a"  # type: ignore[attr-defined]
    plain = load(success_criteria=[criterion("cli_called", tool="uip", verb="a")], **DECLARED).task
    assert Task.model_validate(plain.model_dump(mode="json")) == plain


@pytest.mark.parametrize(
    ("fields", "key", "expected"),
    [
        ({"command": "pytest -q"}, "command", "for instance {tool: 'pytest'}"),
        ({"command": {"verb": "a"}}, "command.tool", "missing"),
        ({"command": {"tool": "/usr/bin/uip"}}, "command.tool", "without its directory"),
        ({"command": {"tool": "uip login"}}, "command.tool", "arguments"),
        ({"command": {"tool": "uip", "verb": "a -b"}}, "command.verb", "is a flag"),
        ({"command": {"tool": "uip", "flgs": {}}}, "command.flgs", "did you mean 'flags'?"),
        ({"command": {"tool": "uip"}, "command_pattern": "x"}, "command", "exclude each other"),
    ],
)
def test_a_mistake_in_a_command_is_one_problem_at_its_key(fields: dict[str, Any], key: str, expected: str) -> None:
    (problem,) = criterion_problems("command_executed", **fields)
    assert problem.key == f"success_criteria[0].{key}"
    assert expected in problem.message


def test_a_command_may_stand_beside_an_exclusion() -> None:
    command = {"tool": "uip", "verb_any_of": ["a", "b"], "positional": ["x"], "flags": {"output": "json"}}
    loaded = load_criterion("command_executed", command=command, exclude_pattern="--help", tool_name="Bash")
    assert loaded.command.tool == "uip"
    assert loaded.command.verbs == (("a",), ("b",))
