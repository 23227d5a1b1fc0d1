"""The reply engine: which rule answers, every kind of reply, state, counters, templates, and the plans of shims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.errors import TrialError
from pytest_codereval.recorder.answering import Answer, CapturedRun, Printed, ReadStdin, Request, RunReal, ShimPlan
from pytest_codereval.recorder.answers import guarded

from ..counting import calls_made
from .engine import Engine

HOSTILE = [
    "{{ 7*7 }}",
    "{% for x in range(9) %}x{% endfor %}",
    "{# gone #}",
    'it\'s "quoted" $(touch /tmp/x) `id`',
    "two\nlines\r\n\ttab",
    '\\"},{',
    "caf\udce9 \udcff",
    "",
    "𝄞 \u2028",
]


def rule(when: dict[str, Any], **reply: Any) -> dict[str, Any]:
    return {"when": when, **reply}


@pytest.mark.parametrize(
    ("reply", "printed"),
    [
        ({"stdout": "ok\n"}, Printed("rule 0", b"ok\n")),
        ({"stdout": "ok"}, Printed("rule 0", b"ok")),
        ({"stderr": "no é\n", "exit_code": 3}, Printed("rule 0", stderr="no é\n".encode(), exit_status=3)),
        ({"json": {"a": [1, None, "é"]}}, Printed("rule 0", '{"a": [1, null, "é"]}\n'.encode())),
        ({"json": None}, Printed("rule 0", b"null\n")),
        ({"json": {"_doc": 1, "a": [{"_doc": "x", "b": {"_doc": {}}}]}}, Printed("rule 0", b'{"a": [{"b": {}}]}\n')),
        ({"stdout": "late", "delay": 0.5}, Printed("rule 0", b"late", delay=0.5)),
        ({"stdout": "{{ not a template"}, Printed("rule 0", b"{{ not a template")),
        ({"exit_code": 0}, Printed("rule 0")),
        ({"passthrough": True}, RunReal()),
        ({"passthrough": True, "delay": 2}, RunReal(delay=2.0)),
    ],
)
def test_every_kind_of_reply(tmp_path: Path, reply: dict[str, Any], printed: Answer) -> None:
    assert Engine(tmp_path, {"responses": [rule({"verb": "go"}, **reply)]}).ask("go") == printed


@pytest.mark.parametrize(
    ("key", "content", "printed"),
    [
        ("stdout_file", b"\xff\x00raw\r\n", b"\xff\x00raw\r\n"),
        ("json_file", b'{"_doc": "note", "a": 1}', b'{"a": 1}\n'),
        ("json_file", b"\xef\xbb\xbf[1,\n 2]", b"[1, 2]\n"),
        ("json_file", '{"a": "é"}'.encode("utf-16"), '{"a": "é"}\n'.encode()),
    ],
)
def test_replies_from_files_are_read_once(tmp_path: Path, key: str, content: bytes, printed: bytes) -> None:
    (tmp_path / "task").mkdir()
    file = tmp_path / "task" / "reply"
    file.write_bytes(content)
    engine = Engine(tmp_path, {"responses": [rule({"verb": "go"}, **{key: "reply"})]})
    file.unlink()
    assert engine.ask("go") == Printed("rule 0", printed)


def test_stderr_file_and_the_files_of_a_table_in_another_folder(tmp_path: Path) -> None:
    tables = tmp_path / "task" / "tables"
    tables.mkdir(parents=True)
    (tables / "usage.txt").write_text("usage\n")
    (tables / "uip.yaml").write_text("- when: {verb: help}\n  stderr_file: usage.txt\n  exit_code: 2\n")
    engine = Engine(tmp_path, {"responses": [rule({"verb": "own"})], "responses_from": "tables/uip.yaml"})
    assert engine.ask("help") == Printed("rule 1", stderr=b"usage\n", exit_status=2)


def test_the_first_matching_rule_answers_and_own_rules_overlay_tables(tmp_path: Path) -> None:
    tables = tmp_path / "task" / "tables"
    tables.mkdir(parents=True)
    (tables / "a.yaml").write_text("- {when: {verb: list}, stdout: a}\n- {when: {verb: get}, stdout: a}\n")
    (tables / "b.yaml").write_text("- {when: {verb: get}, stdout: b}\n- {when: {verb: put}, stdout: b}\n")
    engine = Engine(
        tmp_path,
        {
            "responses": [rule({"verb": "list", "flags": {"all": {"present": True}}}, stdout="own")],
            "responses_from": "tables",
        },
    )
    assert [engine.out("list", "--all"), engine.out("list"), engine.out("get"), engine.out("put")] == [
        "own",
        "a",
        "a",
        "b",
    ]


def test_options_read_the_flags_of_rules(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path,
        {
            "options": {"output": {"aliases": ["o"]}, "yes": {"arity": 0, "aliases": ["y"]}},
            "responses": [
                rule({"verb": "rm", "positional": ["a"], "flags": {"y": {"present": True}}}, stdout="gone"),
                rule({"verb": "get", "flags": {"output": "json"}}, stdout="{}"),
            ],
        },
    )
    assert engine.out("rm", "--yes", "a") == engine.out("-y", "rm", "-o", "x", "a") == "gone"
    assert engine.out("-o", "json", "get") == "{}"
    assert engine.call("rm", "a").answered_by == "fallback"


@pytest.mark.parametrize(
    ("when", "how", "answered"),
    [
        ({"cwd": "sub/dir"}, {"cwd": "sub/dir"}, True),
        ({"cwd": "sub/dir"}, {"cwd": "sub"}, False),
        ({"cwd": "."}, {"cwd": "sub/.."}, True),
        ({"cwd": {"matches_regex": "^/"}}, {"cwd": "/"}, True),
        ({"cwd": {"matches_regex": "^/"}}, {"cwd": "sub"}, False),
        ({"cwd": {"matches_regex": "^/"}}, {"cwd": "../workspace2"}, True),
        ({"env": {"STAGE": "prod"}}, {"env": {"STAGE": "prod"}}, True),
        ({"env": {"STAGE": "prod"}}, {"env": {}}, False),
        ({"env": {"STAGE": {"absent": True}}}, {"env": {}}, True),
        ({"env": {"STAGE": {"matches_regex": "^p"}}}, {"env": {"STAGE": "prod"}}, True),
        ({"stdin": {"contains": "select"}}, {"stdin": b"select 1"}, True),
        ({"stdin": {"contains": "select"}}, {"stdin": b""}, False),
        ({"stdin": {"matches_regex": "t$"}}, {"stdin": b"x\xff st"}, True),
        ({"stdin": {"matches_regex": "end$"}}, {"stdin": b"x" * 70_000 + b"end"}, False),
        ({"stdin": {"absent": True}}, {"stdin": b""}, True),
        ({"stdin": {"any_of": ["a", "b"]}}, {"stdin": b"b"}, True),
    ],
)
def test_circumstances_of_a_call(tmp_path: Path, when: dict[str, Any], how: dict[str, Any], answered: bool) -> None:
    engine = Engine(tmp_path, {"responses": [rule({"verb": "go", **when})]})
    assert engine.call("go", **how).answered_by == ("rule 0" if answered else "fallback")


def test_a_directory_is_the_same_behind_a_link(tmp_path: Path) -> None:
    engine = Engine(tmp_path, {"responses": [rule({"cwd": "sub"})]})
    (engine.workspace / "sub").mkdir()
    (tmp_path / "link").symlink_to(engine.workspace)
    assert engine.call(cwd=str(tmp_path / "link" / "sub")).answered_by == "rule 0"


def test_standard_input_is_asked_for_only_where_the_rest_fits(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path,
        {"responses": [rule({"verb": "first"}), rule({"verb": "run", "stdin": "x", "env": {"A": "1"}})]},
    )
    assert isinstance(engine.ask("run", env={"A": "1"}), ReadStdin)
    for asked in (engine.ask("run"), engine.ask("first", env={"A": "1"}), engine.ask("other", env={"A": "1"})):
        assert isinstance(asked, Printed)


def test_nth_counts_what_the_other_facets_match_whoever_answered(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path,
        {
            "responses": [
                rule({"verb": "get", "positional": ["a"]}, stdout="a"),
                rule({"verb": "get", "nth": 2}, stdout="second"),
                rule({"verb": "get", "nth": 3}, stdout="third"),
                rule({"verb": "get"}, stdout="any"),
            ]
        },
    )
    calls = [("get", "a"), ("get",), ("put",), ("get",), ("get",)]
    assert [engine.out(*argv) for argv in calls] == ["a", "second", "", "third", "any"]


def test_a_call_that_reads_standard_input_counts_once(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path,
        {
            "responses": [
                rule({"verb": "run", "nth": 2, "stdin": {"present": True}}, stdout="second"),
                rule({"verb": "run"}, sequence=[{"stdout": "1"}, {"stdout": "2"}]),
            ]
        },
    )
    assert [engine.out("run", stdin=b"x") for _ in range(3)] == ["1", "second", "2"]
    assert isinstance(engine.ask("run"), ReadStdin)


def test_a_rule_with_nth_and_stdin_is_looked_at_when_its_turn_comes(tmp_path: Path) -> None:
    responses = [
        rule({"verb": "run a"}, stdout="a"),
        rule({"verb": "run", "nth": 2, "stdin": {"present": True}}, stdout="second"),
        rule({"verb": "run", "nth": 4}, stdout="fourth"),
        rule({"verb": "run"}, stdout="any"),
    ]
    engine = Engine(tmp_path, {"responses": responses})
    assert engine.ask("run", "a") == Printed("rule 0", b"a")
    assert isinstance(engine.ask("run", "b"), ReadStdin)
    assert [engine.out("run", "b", stdin=b"x"), engine.out("run", "b", stdin=b"x")] == ["any", "second"]
    assert engine.out("run", "b", stdin=b"") == "fourth"
    assert isinstance(engine.ask("run", "b"), ReadStdin)


def test_sequences_give_their_last_reply_again_and_again(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path,
        {
            "responses": [
                rule({"verb": "a"}, sequence=[{"stderr": "busy", "exit_code": 1}, {"stdout": "ok"}]),
                rule({"verb": "b"}, sequence=[{"passthrough": True}, {"json": []}]),
            ],
            "sequence": [{"stdout": "f1"}, {"stdout": "f2", "exit_code": 9}],
        },
    )
    assert [engine.out("a") for _ in range(3)] == ["", "ok", "ok"]
    assert [engine.ask("b") for _ in range(3)] == [RunReal(), *[Printed("rule 1", b"[]\n")] * 2]
    assert [(engine.out("z"), engine.call("z").exit_status) for _ in range(2)] == [("f1", 9), ("f2", 9)]


def test_state_is_shared_by_the_tools_of_a_trial(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path,
        {
            "responses": [
                rule({"verb": "who", "state": {"user": {"present": True}}}, template=True, stdout="{{ state.user }}"),
                rule({"verb": "logout"}, set_state={"user": None}),
            ],
            "stdout": "nobody",
        },
        {
            "tool": "login",
            "responses": [
                rule({"flags": {"user": {"present": True}}}, template=True, set_state={"user": "{{ flags.user }}"})
            ],
        },
    )
    assert engine.out("who") == "nobody"
    engine.call("--user", "{{ tool }}", tool="login")
    assert engine.out("who") == "{{ tool }}"
    engine.call("logout")
    assert engine.out("who") == "nobody"


def test_reset_forgets_state_and_counters(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path,
        {
            "responses": [
                rule({"verb": "get", "nth": 1}, stdout="first", set_state={"seen": "yes"}),
                rule({"verb": "get", "state": {"seen": "yes"}}, sequence=[{"stdout": "seen"}, {"stdout": "again"}]),
            ]
        },
    )
    once = [engine.out("get") for _ in range(3)]
    engine.answers.reset()
    assert once == ["first", "seen", "again"] == [engine.out("get") for _ in range(3)]


def test_the_fallback_is_unmatched_only_where_something_could_have_matched(tmp_path: Path) -> None:
    matching = Engine(tmp_path, {"responses": [rule({"verb": "a"})], "stderr": "no\n"})
    assert matching.call("b") == Printed("fallback", stderr=b"no\n", exit_status=1, unmatched=True)
    assert not matching.call("a").unmatched
    passing = Engine(tmp_path, {"responses": [rule({"verb": "a"})], "passthrough": True})
    assert passing.ask("b") == RunReal(unmatched=True)
    alone = Engine(tmp_path, {"stderr": "no\n"})
    assert alone.call("b") == Printed("constant", stderr=b"no\n", exit_status=1)


def test_templates_know_the_call(tmp_path: Path) -> None:
    text = (
        "{{ tool }}|{{ argv|join(',') }}|{{ verb }}|{{ positional|join(',') }}|{{ flags.output }}"
        "|{{ flags['dry-run'] }}|{{ 'yes' in flags }}|{{ flags.gone }}|{{ flags.get('gone', 'dflt') }}"
        "|{{ cwd }}|{{ env.STAGE }}|{{ env.GONE }}"
        "|{{ stdin }}|{{ state.x }}|{{ nth }}|{% for name in flags %}{{ name }};{% endfor %}\n"
    )
    engine = Engine(
        tmp_path,
        {
            "options": {"output": {"aliases": ["o"]}, "dry-run": 1, "yes": 0},
            "responses": [rule({"verb": "projects get"}, template=True, stdout=text)],
        },
    )
    engine.call("other")
    printed = engine.out(
        *("projects", "-o", "a", "get", "-o", "b", "--yes", "p1", "--dry-run", "c"),
        cwd="sub",
        env={"STAGE": "prod"},
        stdin=b"in\n",
    )
    assert printed == (
        "uip|projects,-o,a,get,-o,b,--yes,p1,--dry-run,c|projects get|p1|b"
        "|c|True||dflt"
        "|sub|prod|"
        "|in\n||2|output;yes;dry-run;\n"
    )


@pytest.mark.parametrize("value", HOSTILE)
def test_values_of_the_call_are_data_and_never_templates(tmp_path: Path, value: str) -> None:
    raw = value.encode("utf-8", "surrogateescape")
    engine = Engine(
        tmp_path,
        {
            "responses": [
                rule({"verb": "text"}, template=True, stdout="<{{ argv[1] }}>", stderr="{{ flags.name }}"),
                rule({"verb": "json"}, template=True, json={"v": ["{{ argv[1] }}"], "fixed": "}}"}),
                rule({"verb": "set"}, template=True, set_state={"x": "{{ argv[1] }}"}),
                rule({"verb": "get"}, template=True, stdout="{{ state.x }}"),
                rule({"verb": "in"}, template=True, stdout="{{ stdin }}"),
            ]
        },
    )
    printed = engine.call("text", value, "--name", value)
    assert (printed.stdout, printed.stderr) == (b"<" + raw + b">", raw)
    assert json.loads(engine.call("json", value).stdout) == {"v": [value], "fixed": "}}"}
    engine.call("set", value)
    assert engine.call("get").stdout == raw
    assert engine.call("in", stdin=raw).stdout == raw
    assert engine.answers.faults == ()


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), max_size=4))
def test_json_templates_stay_json(tmp_path_factory: pytest.TempPathFactory, argv: list[str]) -> None:
    global _json_engine
    if _json_engine is None:
        template = {"all": "{{ argv|join('') }}", "first": "{{ argv[0] }}"}
        _json_engine = Engine(tmp_path_factory.mktemp("json"), {"template": True, "json": template, "exit_code": 0})
    printed = json.loads(_json_engine.call(*argv).stdout)
    assert printed == {"all": "".join(argv), "first": argv[0] if argv else ""}


_json_engine: Engine | None = None


def test_a_file_may_be_a_template(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "page.txt").write_text("id {{ positional[0] }}\n")
    engine = Engine(tmp_path, {"responses": [rule({"verb": "get"}, template=True, stdout_file="page.txt")]})
    assert engine.out("get", "7") == "id 7\n"


@pytest.mark.parametrize(
    "template",
    ["{{ flags.x.y.z }}", "{{ 1 // (positional|length) }}", "{{ ''.__class__.__mro__ }}", "{{ argv.pop() }}"],
)
def test_a_template_that_cannot_be_filled_is_a_fault_and_tells_the_caller_nothing(
    tmp_path: Path, template: str
) -> None:
    reply = {"template": True, "stdout": template, "exit_code": 0}
    engine = Engine(tmp_path, {"responses": [rule({"verb": "go"}, **reply)]})
    assert engine.call("go") == Printed("rule 0", stderr=b"uip: internal error\n", exit_status=1)
    (fault,) = engine.answers.faults
    assert fault.startswith("uip: responses[0]: template: ")
    assert fault.endswith("the call was: uip go")


def test_an_endless_regular_expression_is_a_fault_and_the_engine_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded, "SECONDS", 0.5)
    endless = {"matches_regex": "^(a|a)*$"}
    engine = Engine(
        tmp_path,
        {
            "responses": [
                rule({"verb": "go", "flags": {"q": endless}}, stdout="argv"),
                rule({"verb": "in", "stdin": endless}, stdout="stdin"),
            ]
        },
    )
    assert engine.call("go", "--q", "a" * 60 + "b").exit_status == 1
    assert engine.call("in", stdin=b"a" * 60 + b"b").exit_status == 1
    assert [fault.split(": ")[1] for fault in engine.answers.faults] == ["responses[0]", "responses[1]"]
    assert engine.out("go", "--q", "aaa") == "argv"
    assert engine.out("in", stdin=b"aaa") == "stdin"


def test_a_call_of_a_tool_that_is_not_recorded_fails(tmp_path: Path) -> None:
    engine = Engine(tmp_path, {})
    assert engine.call("x", tool="other").exit_status == 1
    assert "no such tool" in engine.answers.faults[0]


def test_faults_are_bounded(tmp_path: Path) -> None:
    engine = Engine(tmp_path, {"responses": [rule({"verb": "go"}, template=True, stdout="{{ flags.x.y }}")]})
    for number in range(100):
        engine.call("go", str(number) * 1000)
    assert len(engine.answers.faults) == 20
    assert max(map(len, engine.answers.faults)) < 2000
    engine.answers.reset()
    assert engine.answers.faults == ()


@pytest.mark.parametrize(
    ("tool", "plan"),
    [
        ({}, ShimPlan("uip", exit_status=1)),
        ({"stdout": "a\n", "stderr": "b", "exit_code": 7}, ShimPlan("uip", stdout=b"a\n", stderr=b"b", exit_status=7)),
        ({"json": {"a": 1}, "exit_code": 0}, ShimPlan("uip", stdout=b'{"a": 1}\n')),
        ({"passthrough": True}, ShimPlan("uip", passthrough=True)),
        ({"passthrough": True, "record_to": "c.jsonl"}, ShimPlan("uip", asks=True, may_run_real=True)),
        ({"passthrough": True, "delay": 1}, ShimPlan("uip", asks=True, may_run_real=True)),
        ({"passthrough": True, "responses": [rule({"verb": "a"})]}, ShimPlan("uip", asks=True, may_run_real=True)),
        ({"stdout_file": "reply.txt"}, ShimPlan("uip", asks=True)),
        ({"delay": 1}, ShimPlan("uip", asks=True)),
        ({"template": True, "stdout": "x"}, ShimPlan("uip", asks=True)),
        ({"sequence": [{"stdout": "x"}]}, ShimPlan("uip", asks=True)),
        ({"set_state": {"a": "b"}}, ShimPlan("uip", asks=True)),
        ({"effects": [{"write": "a", "content": "b"}]}, ShimPlan("uip", asks=True)),
        ({"handler": "h"}, ShimPlan("uip", asks=True, may_run_real=True)),
        (
            {"responses": [rule({"env": {"B": "1"}}), rule({"verb": "x"}, template=True, stdout="{{ env.A }}")]},
            ShimPlan("uip", asks=True, variables=("A", "B")),
        ),
    ],
)
def test_only_replies_that_give_nothing_away_stand_in_the_shim(
    tmp_path: Path, tool: dict[str, Any], plan: ShimPlan
) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "reply.txt").write_text("x")
    assert Engine(tmp_path, tool, handlers={"h": lambda call: None}).answers.plans() == (plan,)


def test_a_passthrough_that_is_recorded_is_captured_and_printed_again(tmp_path: Path) -> None:
    engine = Engine(
        tmp_path, {"passthrough": True, "record_to": "c.jsonl", "responses": [rule({"verb": "a"}, stdout="a")]}
    )
    assert engine.ask("x") == RunReal(capture=True, unmatched=True)
    run = CapturedRun(b"\xff", b"e", 130)
    assert engine.ask("x", run=run) == Printed("passthrough", b"\xff", b"e", 130, unmatched=True)


def test_missing_handlers_are_told_before_any_call(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match=r"uip: responses\[0\]: there is no handler 'h'"):
        Engine(tmp_path, {"responses": [rule({"verb": "a"}, handler="h")]})


def test_a_large_table_is_searched_with_little_work_for_each_rule(tmp_path: Path) -> None:
    (tmp_path / "task").mkdir()
    rules = [rule({"verb": f"or jobs v{number}", "flags": {"key": {"equals": "k"}}}) for number in range(300)]
    (tmp_path / "task" / "table.json").write_text(json.dumps(rules))
    engine = Engine(tmp_path, {"responses_from": "table.json", "options": {"key": 1, "output": 1}})
    request = Request("uip", ("or", "jobs", "v299", "--key", "k", "--output", "json"), str(engine.workspace))
    assert engine.call(*request.argv).answered_by == "rule 299"
    assert calls_made(lambda: engine.answers.answer(request)) < 100 * len(rules)
