"""What an author can write that would have no effect, or another one than it says: each is told when the task loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Problem, TaskFileError
from pytest_codereval.task.loader import LoadedTask, load_task
from pytest_codereval.task.trials import expand

from .samples import criterion, criterion_problems, load, problems, task_text

TOOL = "sandbox.record_cli[0]"
RULE = f"{TOOL}.responses[0]"
WHEN = {"verb": "a"}
ROWS = {"dataset": {"rows": [{"id": "x", "table": "t.yaml"}]}}
SCRIPT = {"agent": {"type": "script", "steps": [{"say": "x"}]}}


def tool(**keys: Any) -> dict[str, Any]:
    return {"sandbox": {"record_cli": [{"tool": "uip", **keys}]}}


def rule(**keys: Any) -> dict[str, Any]:
    return tool(responses=[{"when": WHEN, **keys}])


def load_beside(folder: Path, files: dict[str, Any], **changes: Any) -> LoadedTask:
    """The task, with tables beside it."""
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    (folder / "task.yaml").write_text(task_text(**changes), encoding="utf-8")
    return load_task(folder / "task.yaml")


def problems_beside(folder: Path, files: dict[str, Any], **changes: Any) -> tuple[Problem, ...]:
    try:
        load_beside(folder, files, **changes)
    except TaskFileError as error:
        return error.problems
    return ()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (rule(json={"a": [{"x${row.id}": 1}]}), f"{RULE}.json.a[0].x${{row.id}}"),
        (rule(set_state={"${row.id}": "y"}), f"{RULE}.set_state.${{row.id}}"),
        (tool(set_state={"${row.id}": "y"}), f"{TOOL}.set_state.${{row.id}}"),
        (tool(options={"${row.id}": 1}), f"{TOOL}.options.${{row.id}}"),
        (tool(responses=[{"when": {"flags": {"${row.id}": "x"}}}]), f"{RULE}.when.flags.${{row.id}}"),
        (tool(responses=[{"when": {"state": {"${row.id}": {"absent": True}}}}]), f"{RULE}.when.state.${{row.id}}"),
        (
            {
                **tool(),
                "success_criteria": [criterion("cli_called", tool="uip", flags={"${row.id}": {"present": True}})],
            },
            "success_criteria[0].flags.${row.id}",
        ),
        (
            {
                "success_criteria": [
                    criterion("json_check", path="a", assertions=[{"expression": "a", "expected": {"${row.id}": 1}}])
                ]
            },
            "success_criteria[0].assertions[0].expected.${row.id}",
        ),
        (
            {"agent": {"type": "script", "steps": [{"tool": {"name": "x", "parameters": {"${row.id}": 1}}}]}},
            "agent.steps[0].tool.parameters.${row.id}",
        ),
    ],
)
def test_a_row_is_not_put_into_a_key(changes: dict[str, Any], key: str) -> None:
    assert not [found for found in problems(**changes) if "rows are put" in found.message]
    (problem,) = problems(**changes, **ROWS)
    assert (problem.key, problem.message) == (key, "rows are put into values, not into keys")


def test_a_row_in_the_name_of_a_variable_is_told_too() -> None:
    found = problems(**tool(responses=[{"when": {"env": {"${row.id}": "x"}}}]), **ROWS)
    assert "rows are put into values, not into keys" in [problem.message for problem in found]


def test_a_row_in_a_key_of_a_table_is_told_in_the_table(tmp_path: Path) -> None:
    table = [{"when": WHEN, "json": {"${row.id}": 1}}]
    assert problems_beside(tmp_path, {"t.json": table}, **tool(responses_from="t.json")) == ()
    (problem,) = problems_beside(tmp_path, {"t.json": table}, **tool(responses_from="t.json"), **ROWS)
    assert problem.path.endswith("t.json")
    assert problem.line == 7
    assert "not put into tables" in problem.message


DECLARED = {"output": {"aliases": ["o"]}, "yes": 0}
TWO_TOOLS: dict[str, Any] = {"sandbox": {"record_cli": [{"tool": "uip", "options": DECLARED}, {"tool": "curl"}]}}


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"verb": "a", "value_flags": ["x"]}, "value_flags"),
        ({"verb": "a", "ignore_flags": []}, "ignore_flags"),
        ({"flags": {"yes": {"present": True, "aliases": ["y"]}}}, "flags.yes.aliases"),
        ({"sequence": [{"verb": "a"}, {"verb": "b", "value_flags": []}]}, "sequence[1].value_flags"),
        ({"sequence": [{"verb": "b", "ignore_flags": ["x"]}]}, "sequence[0].ignore_flags"),
    ],
)
def test_a_criterion_about_all_tools_does_not_say_what_one_declares(fields: dict[str, Any], key: str) -> None:
    (problem,) = criterion_problems("cli_called", TWO_TOOLS, **fields)
    assert problem.key == f"success_criteria[0].{key}"
    assert "uip declares its options" in problem.message
    assert "name the tool" in problem.message
    assert criterion_problems("cli_called", TWO_TOOLS, **{"tool": "curl", **fields}) == ()
    assert criterion_problems("cli_called", TWO_TOOLS, log="m/calls.jsonl", **fields) == ()
    assert criterion_problems("cli_called", tool(), **fields) == ()


@pytest.mark.parametrize(
    "name",
    [
        *("OPTIND", "PPID", "IFS", "PS1", "PS2", "PS4", "_", "OLDPWD", "PWD", "LINENO", "RANDOM", "UID", "EUID"),
        *("SHLVL", "BASH", "BASH_VERSION", "SECONDS", "codereval_call"),
    ],
)
def test_what_the_shell_of_the_shim_sets_is_not_asked_for(name: str) -> None:
    (problem,) = problems(**tool(responses=[{"when": {"env": {name: "x"}}}]))
    assert problem.key == f"{RULE}.when.env.{name}"
    assert "the shell that runs the shim sets it itself" in problem.message
    assert ("cwd" in problem.message) == name.endswith("PWD")
    for text in (f"{{{{ env.{name} }}}}", f"{{{{ '{name}' in env }}}}"):
        (problem,) = problems(**rule(template=True, json=[text]))
        assert problem.key == f"{RULE}.json[0]"
        assert "sets it itself" in problem.message


@pytest.mark.parametrize("name", ["PATH", "HOME", "UIP_ENV", "PS", "BASHFUL", "REPLY"])
def test_other_variables_may_be_asked_for(name: str) -> None:
    assert (
        problems(**tool(responses=[{"when": {"env": {name: "x"}}, "template": True, "stdout": f"{{{{env.{name}}}}}"}]))
        == ()
    )


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("ouput", "uip declares no flag 'ouput'; did you mean 'output'?"),
        ("O", "did you mean 'o'?"),
        ("force", "uip declares no flag 'force'"),
    ],
)
def test_a_flag_that_the_tool_does_not_declare_is_told(flag: str, expected: str, tmp_path: Path) -> None:
    flags = {"yes": {"present": True}, flag: {"present": True}}
    rules = [{"when": {"verb": "a", "flags": flags}}]
    (problem,) = problems(**tool(options=DECLARED, responses=rules))
    assert (problem.key, expected in problem.message) == (f"{RULE}.when.flags.{flag}", True)
    places = [
        ("cli_called", {"tool": "uip", "flags": flags}, "flags"),
        ("cli_called", {"sequence": [{"tool": "uip", "flags": flags}]}, "sequence[0].flags"),
        ("cli_called", {"tool": "uip", "sequence": [{"flags": flags}]}, "sequence[0].flags"),
        ("command_executed", {"command": {"tool": "uip", "flags": flags}}, "command.flags"),
    ]
    for kind, fields, place in places:
        (problem,) = criterion_problems(kind, {**TWO_TOOLS, **SCRIPT}, **fields)
        assert (problem.key, expected in problem.message) == (f"success_criteria[0].{place}.{flag}", True)
    (problem,) = problems_beside(tmp_path, {"t.json": rules}, **tool(options=DECLARED, responses_from="t.json"))
    assert problem.path.endswith("t.json")
    assert (problem.key, expected in problem.message) == (f"[0].when.flags.{flag}", True)


def test_flags_are_free_where_nothing_is_declared_and_by_any_declared_name() -> None:
    flags = {"o": "x", "yes": {"present": True}}
    assert problems(**tool(options=DECLARED, responses=[{"when": {"flags": flags}}])) == ()
    assert problems(**tool(responses=[{"when": {"flags": {"ouput": "x"}}}])) == ()
    for fields in ({"tool": "uip", "flags": flags}, {"tool": "curl", "flags": {"ouput": "x"}}):
        assert criterion_problems("cli_called", TWO_TOOLS, **fields) == ()


ASKING = {"when": {"state": {"logn": "yes"}}}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, "no set_state of the task sets 'logn', so this never holds"),
        ({"set_state": {"login": "yes", "other": "x"}}, "did you mean 'login'? (set: login, other)"),
        ({"set_state": {"logn": None, "login": "yes"}}, "did you mean 'login'? (set: login)"),
    ],
)
def test_a_state_that_nothing_sets_is_told(entry: dict[str, Any], expected: str, tmp_path: Path) -> None:
    (problem,) = problems(**tool(responses=[ASKING], **entry))
    assert problem.key == f"{RULE}.when.state.logn"
    assert expected in problem.message
    (problem,) = load_beside(tmp_path, {"t.json": [ASKING]}, **tool(responses_from="t.json", **entry)).warnings
    assert problem.path.endswith("t.json")
    assert (problem.line, problem.key) == (5, "[0].when.state.logn")
    assert expected in problem.message


SETTING = {"set_state": {"logn": "yes"}}


@pytest.mark.parametrize(
    "entries",
    [
        [{"responses": [ASKING], **SETTING}],
        [{"responses": [ASKING]}, {"tool": "curl", **SETTING}],
        [{"responses": [ASKING]}, {"tool": "curl", "responses": [{"when": WHEN, **SETTING}]}],
        [{"responses": [ASKING, {"when": WHEN, "sequence": [{}, SETTING]}]}],
        [{"responses": [ASKING]}, {"tool": "curl", "handler": "simulate"}],
        [{"responses": [ASKING, {"when": WHEN, "sequence": [{}, {"handler": "simulate"}]}]}],
        [{"responses": [{"when": {"state": {"logn": {"absent": True}}}}]}],
    ],
)
def test_a_state_that_may_be_set_anywhere_in_the_task_may_be_asked_for(entries: list[dict[str, Any]]) -> None:
    assert problems(sandbox={"record_cli": [{"tool": "uip", **entry} for entry in entries]}) == ()


def test_states_are_shared_with_tables(tmp_path: Path) -> None:
    tables = {"a.json": [ASKING], "b.json": [{"when": WHEN, **SETTING}], "c.json": [{"when": WHEN, "handler": "f"}]}
    for other in ("b.json", "c.json"):
        entries = [{"tool": "uip", "responses_from": "a.json"}, {"tool": "curl", "responses_from": other}]
        assert problems_beside(tmp_path, tables, sandbox={"record_cli": entries}) == ()


def test_a_table_that_a_row_names_may_set_a_state(tmp_path: Path) -> None:
    changes = tool(responses=[ASKING], responses_from="${row.table}")
    expand(load_beside(tmp_path, {"t.yaml": [{"when": WHEN, **SETTING}]}, **changes, **ROWS))
    loaded = load_beside(tmp_path, {"t.yaml": [{"when": WHEN}]}, **changes, **ROWS)
    with pytest.raises(TaskFileError, match=r"responses\[0\].when.state.logn: no set_state of the task sets 'logn'"):
        expand(loaded)


@pytest.mark.parametrize(
    ("changes", "key", "wanted"),
    [
        (tool(responses=[{"when": {"verb": "uip login"}}]), f"{RULE}.when.verb", "expected 'login'"),
        (tool(responses=[{"when": {"verb_any_of": ["a", "uip b"]}}]), f"{RULE}.when.verb_any_of[1]", "expected 'b'"),
        (
            {**tool(), "success_criteria": [criterion("cli_called", tool="uip", verb="uip")]},
            "success_criteria[0].verb",
            "leave it out",
        ),
        (
            {**tool(), "success_criteria": [criterion("cli_called", tool="uip", sequence=[{"verb": "uip a"}])]},
            "success_criteria[0].sequence[0].verb",
            "expected 'a'",
        ),
        (
            {**SCRIPT, "success_criteria": [criterion("command_executed", command={"tool": "git", "verb": "git a"})]},
            "success_criteria[0].command.verb",
            "expected 'a'",
        ),
    ],
)
def test_a_verb_with_the_name_of_its_tool_is_doubted(changes: dict[str, Any], key: str, wanted: str) -> None:
    (warning,) = load(**changes).warnings
    assert warning.key == key
    assert "a verb begins behind the tool's name" in warning.message
    assert wanted in warning.message


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        ({"json": {"a": {"{{ flags.x }}": 1}}}, "json.a.{{ flags.x }}"),
        ({"json": [{"{% if x %}": 1}]}, "json[0].{% if x %}"),
        ({"set_state": {"{{ flags.x }}": "1"}}, "set_state.{{ flags.x }}"),
    ],
)
def test_a_key_that_looks_like_a_template_is_told(reply: dict[str, Any], key: str) -> None:
    (problem,) = problems(**rule(template=True, **reply))
    assert problem.key == f"{RULE}.{key}"
    assert "keys are not rendered" in problem.message
    assert problems(**rule(**reply)) == ()


def test_a_key_of_a_json_file_that_looks_like_a_template_is_told(tmp_path: Path) -> None:
    files = {"r.json": {"a": {"{{ verb }}": 1}}}
    (problem,) = problems_beside(tmp_path, files, **rule(template=True, json_file="r.json"))
    assert problem.key == f"{RULE}.json_file"
    assert "'{{ verb }}'" in problem.message
    assert problems_beside(tmp_path, files, **rule(json_file="r.json")) == ()


def test_notes_are_no_templates(tmp_path: Path) -> None:
    note = {"_doc": {"{{ x }}": "{{ not a template"}, "a": "{{ verb }}"}
    assert problems_beside(tmp_path, {"r.json": note}, **rule(template=True, json_file="r.json")) == ()
    assert load(**rule(template=True, json=note)).warnings == ()
    assert load(**rule(json={"_doc": "{{ x }}"})).warnings == ()


@pytest.mark.parametrize(
    ("reply", "key"),
    [
        ({"stdout": "{{ verb }}"}, "stdout"),
        ({"stderr": "{% if nth %}"}, "stderr"),
        ({"json": {"a": ["{{ verb }}"]}}, "json.a[0]"),
        ({"set_state": {"login": "{{ verb }}"}}, "set_state.login"),
        ({"effects": [{"write": "a", "content": "{{ verb }}"}]}, "effects[0].content"),
        ({"sequence": [{}, {"stdout": "{{ verb }}"}]}, "sequence[1].stdout"),
    ],
)
def test_a_text_that_looks_like_a_template_is_doubted(reply: dict[str, Any], key: str, tmp_path: Path) -> None:
    (warning,) = load(**rule(**reply)).warnings
    assert warning.key == f"{RULE}.{key}"
    assert "template: true" in warning.message
    (warning,) = load(**tool(**reply)).warnings
    assert warning.key == f"{TOOL}.{key}"
    table = [{"when": {"verb": "uip a"}, **reply}]
    warnings = load_beside(tmp_path, {"t.json": table}, **tool(responses_from="t.json")).warnings
    assert [warning.key for warning in warnings] == ["[0].when.verb", f"[0].{key}"]
    assert all(warning.path.endswith("t.json") for warning in warnings)


def test_what_is_said_to_be_no_template_is_not_doubted() -> None:
    assert load(**rule(template=False, stdout="${{ github.token }}")).warnings == ()
    assert load(**rule(stdout="{ {x} } {# no #}")).warnings == ()
