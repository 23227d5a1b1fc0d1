"""Tables of replies and the files that replies name: all of it is found before a trial begins."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Problem, TaskFileError
from pytest_codereval.task.loader import load_task
from pytest_codereval.task.reply_tables import ToolTable, load_table
from pytest_codereval.task.trials import expand

from .samples import task_text

TOOL = "sandbox.record_cli[0]"
RULE: dict[str, Any] = {"when": {"verb": "a"}}


class Suite:
    """A folder with a task and what lies beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, name: str, content: str | bytes | list[Any] | dict[str, Any]) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, list | dict):
            content = json.dumps(content, indent=1)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def task(self, rows: list[dict[str, Any]] | None = None, **tool: Any) -> Path:
        dataset = {"dataset": {"rows": rows}} if rows else {}
        sandbox = {"record_cli": [{"tool": "uip", **tool}]}
        return self.write("tasks/task.yaml", task_text(sandbox=sandbox, **dataset))

    def table(self, **tool: Any) -> ToolTable:
        path = self.task(**tool)
        (entry,) = load_task(path).task.sandbox.record_cli or ()
        return load_table(entry, path.parent)

    def problems(self, **tool: Any) -> tuple[Problem, ...]:
        path = self.task(**tool)
        try:
            load_task(path)
        except TaskFileError as error:
            return error.problems
        return ()

    def problem(self, **tool: Any) -> Problem:
        (found,) = self.problems(**tool)
        return found


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suite:
    monkeypatch.chdir(tmp_path)
    return Suite(tmp_path)


def test_own_rules_come_first_and_tables_in_their_order(suite: Suite) -> None:
    suite.write("tables/b.yaml", "- when: {verb: b}\n  stdout_file: out.txt\n")
    suite.write("tables/a.json", {"_doc": "notes", "responses": [{"_doc": "a", "when": {"verb": "a"}, "json": 1}]})
    suite.write("tables/out.txt", "x")
    suite.write("tables/.hidden.yaml", "- nonsense")
    suite.write("extra.yaml", "responses:\n- when: {verb: c}\n")
    table = suite.table(responses=[{"when": {"verb": "own"}}], responses_from=["../tables", "../extra.yaml"])
    tables = suite.folder / "tables"
    assert [rule.response.when.verb for rule in table.rules] == ["own", "a", "b", "c"]
    assert [rule.origin for rule in table.rules] == [
        "responses[0]",
        f"{tables / 'a.json'}: responses[0]",
        f"{tables / 'b.yaml'}: responses[0]",
        f"{suite.folder / 'extra.yaml'}: responses[0]",
    ]
    assert [rule.folder for rule in table.rules] == [suite.folder / "tasks", tables, tables, suite.folder]
    files = {tables / "a.json", tables / "b.yaml", tables / "out.txt", suite.folder / "extra.yaml"}
    assert set(table.files) == files


def test_json_replies_in_a_folder_of_tables_are_no_tables(suite: Suite) -> None:
    reply = {"when": {"verb": "a"}, "sequence": [{"json_file": "one.json"}, {"stdout": "x"}]}
    suite.write("tasks/t/rules.yaml", json.dumps([reply]))
    suite.write("tasks/t/one.json", {"Data": []})
    assert len(suite.table(responses_from="t").rules) == 1


def test_an_overlay_may_answer_what_a_table_answers_too(suite: Suite) -> None:
    suite.write("tasks/common.yaml", json.dumps([RULE]))
    suite.write("tasks/overlay.yaml", json.dumps([RULE]))
    assert len(suite.table(responses=[RULE], responses_from=["overlay.yaml", "common.yaml"]).rules) == 3


@pytest.mark.parametrize(
    ("content", "line", "key", "expected"),
    [
        ("- when: {verb: a}\n  stdot: x\n", 2, "[0].stdot", "did you mean 'stdout'?"),
        ("responses:\n- when: {verb: a}\n  exit_code: 999\n", 3, "responses[0].exit_code", "at most 255"),
        ("- when: {verb: a}\n- when: {verb: a}\n", 2, "[1].when", "never reached: responses[0]"),
        ("- when: {}\n", 1, "[0].when", "at least one of"),
        ("- when: {verb: a, value_flags: [x]}\n", 1, "[0].when.value_flags", "declares its options"),
        ("- stdout: x\n", 1, "[0].when", "missing"),
        ("- {when: {verb: a}, template: true, stdout: '{{ x }}'}\n", 1, "[0].stdout", "does not know 'x'"),
        ("- {when: {verb: a}, stdout_file: gone.txt}\n", 1, "[0].stdout_file", "no such file"),
        ("- {when: {verb: a}, stdout: $REFERENCE_DIR}\n", 1, "[0].stdout", "give the reference away"),
        ("- {when: {verb: a}, stdout: x, stdout: y}\n", 1, "[0].stdout", "twice"),
        ("respones: []\n", 1, "respones", "did you mean 'responses'?"),
        ("responses: {}\n", 1, "responses", "at least one rule"),
        ("[]\n", 1, "", "empty"),
        ("text\n", 1, "", "a table is a list of rules"),
        ("\na: b: c\n", 2, "", "mapping values are not allowed"),
        ("", 1, "", "empty"),
    ],
)
def test_a_mistake_in_a_table_is_told_with_its_own_line(
    suite: Suite, content: str, line: int, key: str, expected: str
) -> None:
    suite.write("tasks/t.yaml", content)
    found = suite.problems(responses_from="t.yaml", options={"o": 1})
    problem = next(item for item in found if expected in item.message)
    assert (problem.path, problem.line, problem.key) == ("tasks/t.yaml", line, key)


def test_json_tables_may_hold_what_yaml_cannot_read(suite: Suite) -> None:
    suite.write("tasks/t.json", '[\n\t{"when": {"verb": "a"},\n\t "stdout": "a\\/b \\ud83d\\ude00"}\n]')
    (rule,) = suite.table(responses_from="t.json").rules
    assert rule.response.stdout == "a/b \U0001f600"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ('[\n\t{"when": {"verb": "a"},\n\t"stdot": 1}]', 3, "did you mean 'stdout'?"),
        ('[{"when": {"verb": "a"},\n}]', 2, "not JSON"),
        ('[{"when": {"verb": "a"}, "json": NaN}]', 1, "NaN"),
        ('[{"when": {"verb": "a"},\n"stdout": "x", "stdout": "y"}]', 2, "twice"),
        ('[{"when": {"verb": "a"}, "stdout": "\\/", "stdout": "y"}]', 1, "twice"),
    ],
)
def test_a_mistake_in_a_json_table_is_told_with_its_line(suite: Suite, text: str, line: int, expected: str) -> None:
    suite.write("tasks/t.json", text)
    problem = suite.problem(responses_from="t.json")
    assert (problem.path, problem.line) == ("tasks/t.json", line)
    assert expected in problem.message


@pytest.mark.parametrize(
    ("names", "key", "expected"),
    [
        ("gone.yaml", "responses_from", "no such file or folder"),
        (["t.yaml", "gone"], "responses_from[1]", "no such file or folder"),
        (["t.yaml", "./t.yaml"], "responses_from[1]", "listed twice"),
        ("empty", "responses_from", "no table"),
        ("$NO_SUCH_VARIABLE/t.yaml", "responses_from", "NO_SUCH_VARIABLE is not set"),
    ],
)
def test_a_table_that_is_not_there_is_told_where_it_is_named(suite: Suite, names: Any, key: str, expected: str) -> None:
    suite.write("tasks/t.yaml", json.dumps([RULE]))
    suite.write("tasks/empty/readme.txt", "")
    problem = suite.problem(responses_from=names)
    assert problem.key == f"{TOOL}.{key}"
    assert problem.path == "tasks/task.yaml"
    assert expected in problem.message


@pytest.mark.parametrize(
    ("reply", "key", "expected"),
    [
        ({"stdout_file": "gone"}, "stdout_file", "no such file"),
        ({"stderr_file": "sub"}, "stderr_file", "no regular file"),
        ({"stdout_file": "pipe"}, "stdout_file", "no regular file"),
        ({"json_file": "gone.json"}, "json_file", "no such file"),
        ({"json_file": "polluted.json"}, "json_file", "not JSON: Expecting value at line 1, column 1: 'EXIT=0'"),
        ({"json_file": "latin.json"}, "json_file", "byte 1 is not UTF-8"),
        ({"json_file": "half.json"}, "json_file", "surrogate"),
        ({"json_file": "nan.json"}, "json_file", "NaN"),
        ({"sequence": [{}, {"json_file": "gone.json"}]}, "sequence[1].json_file", "no such file"),
        ({"effects": [{"write": "a", "content_file": "gone"}]}, "effects[0].content_file", "no such file"),
        ({"effects": [{"copy": "gone", "to": "a"}]}, "effects[0].copy", "no such file or folder"),
        ({"template": True, "stdout_file": "unknown.txt"}, "stdout_file", "does not know 'vreb'"),
        ({"template": True, "json_file": "unknown.json"}, "json_file", "does not know 'x'"),
        ({"handler": "gone.py:uip"}, "handler", "no such file"),
        ({"handler": "h.py:upi"}, "handler", "no function 'upi'; did you mean 'uip'?"),
        ({"handler": "h.py:later"}, "handler", "async"),
        ({"handler": "broken.py:uip"}, "handler", "not Python"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_where_it_is_named(
    suite: Suite, reply: dict[str, Any], key: str, expected: str
) -> None:
    suite.write("tasks/sub/x", "")
    os.mkfifo(suite.folder / "tasks/pipe")
    suite.write("tasks/polluted.json", 'EXIT=0\n{"a": 1}')
    suite.write("tasks/latin.json", b'"\xe9"')
    suite.write("tasks/half.json", '"\\ud800"')
    suite.write("tasks/nan.json", "[NaN]")
    suite.write("tasks/unknown.txt", "{{ vreb }}")
    suite.write("tasks/unknown.json", ["{{ x }}"])
    suite.write("tasks/h.py", "import nothing_like_this\ndef uip(call): return ''\nasync def later(call): pass\n")
    suite.write("tasks/broken.py", "def uip(:")
    problem = suite.problem(responses=[{**RULE, **reply}])
    assert problem.key == f"{TOOL}.responses[0].{key}"
    assert expected in problem.message
    problem = suite.problem(**({"exit_code": 0} if "exit_code" in reply else {}), **reply)
    assert problem.key == f"{TOOL}.{key}"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_files_in_any_of_their_encodings_load(suite: Suite, encoding: str) -> None:
    suite.write("tasks/r.json", '{"name": "caf\u00e9", "t": "{{ env.IN_JSON }}"}'.encode(encoding))
    assert suite.table(responses=[{**RULE, "json_file": "r.json"}]).variables == ()
    assert suite.table(responses=[{**RULE, "json_file": "r.json", "template": True}]).variables == ("IN_JSON",)


@pytest.mark.parametrize(
    "source",
    [
        "def uip(call): ...",
        "if True:\n    uip = print",
        "from os import path as uip",
        "from os import *",
        "class uip: ...",
    ],
)
def test_a_handler_is_found_without_being_run(suite: Suite, source: str) -> None:
    suite.write("tasks/h.py", source + "\nraise SystemExit\n")
    assert suite.table(handler="h.py:uip").files == (suite.folder / "tasks/h.py",)


def test_what_the_answers_ask_of_a_call_is_known(suite: Suite) -> None:
    suite.write("tasks/t.txt", "{{ env['IN_FILE'] }}")
    table = suite.table(
        template=True,
        stdout_file="t.txt",
        responses=[
            {"when": {"env": {"IN_RULE": {"present": True}}}},
            {"when": {"verb": "b"}, "sequence": [{"template": True, "stderr": "{{ env.IN_SEQUENCE }}"}]},
        ],
    )
    assert table.variables == ("IN_FILE", "IN_RULE", "IN_SEQUENCE")
    assert suite.table(stdout="{{ env.NO_TEMPLATE }}").variables == ()


def test_effects_and_cassettes_are_among_the_files(suite: Suite) -> None:
    suite.write("tasks/fixtures/project/a.txt", "x")
    effects = [{"copy": "fixtures/project", "to": "project"}]
    table = suite.table(
        passthrough=True, record_to="new/c.jsonl", replay_from="new/c.jsonl", responses=[{**RULE, "effects": effects}]
    )
    cassette = suite.folder / "tasks/new/c.jsonl"
    assert set(table.files) == {suite.folder / "tasks/fixtures/project", cassette}
    assert (table.record_to, table.replay_from) == (cassette, cassette)


@pytest.mark.parametrize(
    ("keys", "key", "expected"),
    [
        ({"replay_from": "gone.jsonl"}, "replay_from", "no such file"),
        ({"passthrough": True, "record_to": "c.jsonl", "replay_from": "gone.jsonl"}, "replay_from", "no such file"),
        ({"passthrough": True, "record_to": "sub"}, "record_to", "no regular file"),
        ({"record_to": "c.jsonl", "responses": [RULE]}, "record_to", "nothing is ever recorded"),
    ],
)
def test_a_cassette_that_cannot_be_used_is_told(suite: Suite, keys: dict[str, Any], key: str, expected: str) -> None:
    suite.write("tasks/sub/x", "")
    problem = suite.problem(**keys)
    assert problem.key == f"{TOOL}.{key}"
    assert expected in problem.message


def test_a_passing_through_rule_of_a_table_is_enough_to_record(suite: Suite) -> None:
    suite.write("tasks/t.yaml", json.dumps([{**RULE, "passthrough": True}]))
    assert suite.problems(responses_from="t.yaml", record_to="c.jsonl") == ()


def test_what_changed_since_the_task_was_loaded_is_found(suite: Suite) -> None:
    path = suite.write("tasks/r.json", "1")
    task = load_task(suite.task(responses=[{**RULE, "json_file": "r.json"}])).task
    (entry,) = task.sandbox.record_cli or ()
    path.write_text("no json")
    with pytest.raises(TaskFileError, match=r"uip.responses\[0\].json_file: .*not JSON"):
        load_table(entry, suite.folder / "tasks")


def test_a_changed_table_is_read_anew(suite: Suite) -> None:
    suite.write("tasks/t.yaml", json.dumps([RULE]))
    assert len(suite.table(responses_from="t.yaml").rules) == 1
    suite.write("tasks/t.yaml", json.dumps([RULE, {"when": {"verb": "b"}}]))
    assert len(suite.table(responses_from="t.yaml").rules) == 2


ROWS = [{"id": "x", "verb": "get"}, {"id": "y", "verb": "list"}]


def test_a_row_stands_in_rules_replies_and_paths(suite: Suite) -> None:
    for name in "xy":
        suite.write(f"tasks/{name}.json", [name])
    path = suite.task(
        ROWS,
        responses=[
            {"when": {"verb": "${row.verb}"}, "json_file": "${row.id}.json"},
            {"when": {"verb": "text"}, "json": {"id": ["${row.id}"]}, "set_state": {"k": "${row.id}"}},
        ],
    )
    trials = expand(load_task(path))
    tables = [load_table((trial.task.sandbox.record_cli or ())[0], path.parent) for trial in trials]
    assert [table.rules[0].response.when.verb for table in tables] == ["get", "list"]
    assert [table.files for table in tables] == [(path.parent / "x.json",), (path.parent / "y.json",)]
    assert [table.rules[1].response.json_value for table in tables] == [{"id": ["x"]}, {"id": ["y"]}]
    assert tables[1].rules[1].response.set_state == {"k": "y"}


@pytest.mark.parametrize(
    ("reply", "key", "expected"),
    [
        ({"json_file": "${row.id}.json"}, "json_file", "no such file"),
        ({"stdout": "${row.no}"}, "stdout", "the row has no 'no'"),
        ({"stdout": "${row.leak}"}, "stdout", "give the reference away"),
        ({"template": True, "stdout": "{{ ${row.word} }}"}, "stdout", "does not know 'oops'"),
        ({"effects": [{"write": "${row.up}", "content": ""}]}, "effects[0].write", "leaves the workspace"),
        ({"handler": "${row.up}"}, "handler", "file.py:function"),
    ],
)
def test_what_a_row_makes_wrong_in_a_reply_is_found(
    suite: Suite, reply: dict[str, Any], key: str, expected: str
) -> None:
    row = {"id": "x", "leak": "$REFERENCE_DIR", "word": "oops", "up": "../a"}
    loaded = load_task(suite.task([row], responses=[{**RULE, **reply}]))
    with pytest.raises(TaskFileError) as caught:
        expand(loaded)
    (problem,) = caught.value.problems
    assert problem.key == f"{TOOL}.responses[0].{key}"
    assert expected in problem.message


def test_rows_are_not_put_into_tables(suite: Suite) -> None:
    suite.write("tasks/t.yaml", json.dumps([{**RULE, "stdout": "${row.id}"}]))
    assert suite.table(responses_from="t.yaml").rules[0].response.stdout == "${row.id}"
    (problem,) = suite.problems(rows=ROWS, responses_from="t.yaml")
    assert (problem.path, problem.key) == ("tasks/t.yaml", "[0].stdout")
    assert "not put into tables" in problem.message


def test_a_table_of_many_rules_is_read_once(suite: Suite, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [{"when": {"verb": f"a v{number}", "positional": ["x"]}, "json": {}} for number in range(300)]
    suite.write("tasks/t.yaml", json.dumps(rules))
    reads: list[str] = []
    read_bytes = Path.read_bytes

    def counted(path: Path) -> bytes:
        reads.append(path.name)
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", counted)
    for _ in range(3):
        assert len(suite.table(responses_from="t.yaml").rules) == 300
    assert reads.count("t.yaml") == 1
