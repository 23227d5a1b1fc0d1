"""Handlers: what they are given, what they may return, standard input, state, and how their mistakes show."""

from __future__ import annotations

import functools
import json
import math
import types
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.recorder.answering import Answer, Printed, ReadStdin, Request, RunReal
from pytest_codereval.recorder.answers.call import Call, Copy, Passthrough, Reply, Write
from pytest_codereval.recorder.answers.engine import Answers
from pytest_codereval.recorder.answers.handler_files import find_handler, no_names, source_of
from pytest_codereval.task.reply_models import RecordedTool
from pytest_codereval.task.reply_tables import load_table

from .engine import Engine


def engine(root: Path, handler: Any, **tool: Any) -> Engine:
    return Engine(root, {"handler": "h", **tool}, handlers={"h": handler})


def test_a_handler_sees_the_call(tmp_path: Path) -> None:
    seen: list[Call] = []
    options = {"name": {"aliases": ["n"]}, "yes": 0}
    made = engine(tmp_path, seen.append, options=options, responses=[{"when": {"env": {"STAGE": "x"}}, "stdout": "x"}])
    made.call("first")
    made.call(
        *("guardrails", "-n", "a", "create", "g1", "--name=b", "--yes", "--size", "9", "x\udcff"),
        cwd="sub",
        env={"STAGE": "prod"},
    )
    call = seen[1]
    assert (call.tool, call.cwd, call.env, call.nth) == ("uip", "sub", {"STAGE": "prod"}, 2)
    assert call.argv[:3] == ("guardrails", "-n", "a")
    assert call.verb == "guardrails create g1 9 x\udcff"
    assert call.positional == ("guardrails", "create", "g1", "9", "x\udcff")
    assert (call.flag("name"), call.flags("n"), call.has("n"), call.flag("yes")) == ("b", ["a", "b"], True, "")
    assert (call.flag("size"), call.flag("gone"), call.flag("gone", "d"), call.has("gone")) == ("9", None, "d", False)


def test_a_handler_of_a_rule_sees_its_verb_apart(tmp_path: Path) -> None:
    rule = {"when": {"verb": "guardrails create", "flags": {"kind": {"matches_regex": "."}}}, "handler": "h"}
    made = Engine(
        tmp_path,
        {"responses": [rule]},
        handlers={"h": lambda call: f"{call.verb}|{','.join(call.positional)}|{call.flag('kind')}"},
    )
    assert made.call("guardrails", "create", "--kind", "k", "g1") == Printed("handler", b"guardrails create|g1|k")


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (Reply("out", "err", 7, delay=0.5), Printed("handler", b"out", b"err", 7, 0.5)),
        (Reply(b"\xff\0", b"\xfe"), Printed("handler", b"\xff\0", b"\xfe")),
        (Reply(json=None), Printed("handler", b"null\n")),
        (Reply(json={"é": "\udcff"}), Printed("handler", '{"é": "\\udcff"}\n'.encode())),
        ("text \udcff", Printed("handler", b"text \xff")),
        ("half \ud800", Printed("handler", b"half \\ud800")),
        ({"a": 1}, Printed("handler", b'{"a": 1}\n')),
        ([1, "x"], Printed("handler", b'[1, "x"]\n')),
        (Passthrough(), RunReal()),
        (None, Printed("fallback", stderr=b"fallback", exit_status=4, unmatched=True)),
    ],
)
def test_what_a_handler_returns(tmp_path: Path, result: object, answer: Answer) -> None:
    made = engine(tmp_path, lambda call: result, stderr="fallback", exit_code=4)
    assert made.ask("x") == answer
    assert made.answers.faults == ()


async def coroutine() -> str:
    return "x"


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        (lambda call: 7, "TypeError: the handler returned int; expected Reply, str, dict, list, Passthrough or None"),
        (lambda call: b"x", "TypeError: the handler returned bytes"),
        (lambda call: True, "TypeError: the handler returned bool"),
        (lambda call: Reply, "TypeError: the handler returned type"),
        (lambda call: coroutine(), "TypeError: the handler returned coroutine"),
        (lambda call: Reply(json={1, 2}), "TypeError: Object of type set is not JSON serializable"),
        (lambda call: [math.nan], "ValueError: Out of range float values"),
        (lambda call: Reply(7), "TypeError: Reply: stdout: expected str or bytes, got int"),
        (lambda call: Reply(exit_code="1"), "TypeError: Reply: exit_code: expected an int, got str"),
        (lambda call: Reply(exit_code=256), "ValueError: Reply: exit_code: expected 0 to 255, got 256"),
        (lambda call: Reply(exit_code=True), "TypeError: Reply: exit_code: expected an int, got bool"),
        (lambda call: Reply(delay=-1), "ValueError: Reply: delay: expected 0 to 3600 seconds, got -1"),
        (lambda call: Reply(delay=math.inf), "ValueError: Reply: delay"),
        (lambda call: Reply("x", json=1), "ValueError: Reply: json and stdout exclude each other"),
        (lambda call: Reply(effects=["x"]), "TypeError: Reply: effects: expected Write or Copy, got str"),
        (lambda call: Reply(effects=[Write("a", 1)]), "TypeError: Reply: effects: Write: expected content"),
        (lambda call: Reply(effects=[Copy("gone", "a")]), "gone: No such file or directory"),
        (lambda call: call.flg("x"), "AttributeError: 'Call' object has no attribute 'flg'"),
        (lambda call: exit(3), "SystemExit: 3"),
        (lambda call: pytest.fail("no such thing"), "Failed: no such thing"),
        (lambda call: {}["secret"], "KeyError: 'secret'"),
        (lambda call: call.state["x"], "KeyError: 'x'"),
    ],
)
def test_mistakes_of_a_handler_are_faults_and_the_caller_learns_nothing(
    tmp_path: Path, handler: Any, told: str
) -> None:
    made = engine(tmp_path, handler)
    assert made.call("a", "b c") == Printed("handler", stderr=b"uip: internal error\n", exit_status=1)
    (fault,) = made.answers.faults
    assert fault.startswith("uip: handler 'h': ")
    assert told in fault
    assert fault.endswith("the call was: uip a 'b c'")


def test_a_fault_names_the_rule_and_the_line(tmp_path: Path) -> None:
    def fails(call: Call) -> None:
        raise RuntimeError(f"cannot {call.argv[0]}")

    made = Engine(tmp_path, {"responses": [{"when": {"verb": "go"}, "handler": "h"}]}, handlers={"h": fails})
    made.call("go")
    (fault,) = made.answers.faults
    line = fails.__code__.co_firstlineno + 1
    assert fault == (
        "uip: responses[0]: handler 'h': RuntimeError: cannot go "
        f"(test_answers_handlers.py:{line}); the call was: uip go"
    )


def test_an_exception_without_text_is_told_too(tmp_path: Path) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def fails(call: Call) -> None:
        raise Mute

    made = engine(tmp_path, fails)
    assert made.call("go").exit_status == 1
    assert "Mute" in made.answers.faults[0]


def test_reading_stdin_runs_the_handler_anew_with_the_state_as_it_was(tmp_path: Path) -> None:
    runs: list[int] = []

    def counts(call: Call) -> str:
        runs.append(call.nth)
        call.state.setdefault("seen", []).append(call.argv)
        text = call.stdin if call.has("read") else "-"
        return f"{len(call.state['seen'])} {text}"

    made = engine(tmp_path, counts)
    assert made.out("a") == "1 -"
    assert isinstance(made.ask("b", "--read"), ReadStdin)
    assert made.out("c") == "2 -"
    assert made.out("b", "--read", stdin=b"caf\xc3\xa9 \xff".replace(b"\xff", b"!")) == "3 café !"
    assert runs == [1, 2, 2, 3, 3]


def test_a_handler_that_hides_the_wish_for_stdin_gets_it_all_the_same(tmp_path: Path) -> None:
    def greedy(call: Call) -> str:
        try:
            return call.stdin
        except:  # noqa: E722
            return "swallowed"

    assert engine(tmp_path, greedy).out("x", stdin=b"input") == "input"


def test_stdin_is_empty_text_when_there_is_none(tmp_path: Path) -> None:
    assert engine(tmp_path, lambda call: repr(call.stdin)).out("x") == "''"


def test_a_state_that_cannot_be_copied_is_a_fault_only_where_it_must_be(tmp_path: Path) -> None:
    def keeps(call: Call) -> str:
        call.state["generator"] = (x for x in ())
        return "kept" if call.verb == "keep" else call.stdin

    made = engine(tmp_path, keeps)
    assert [made.out("keep"), made.out("keep")] == ["kept", "kept"]
    assert made.answers.faults == ()
    assert made.call("read", stdin=b"x").exit_status == 1
    assert "call.state holds what cannot be copied" in made.answers.faults[0]


def test_a_handler_that_does_not_answer_leaves_the_call_to_the_next(tmp_path: Path) -> None:
    tool = {
        "responses": [
            {"when": {"verb": "a"}, "handler": "none"},
            {"when": {"verb": "a b"}, "stdout": "rule"},
        ],
        "handler": "h",
        "exit_code": 3,
    }
    handlers = {"none": lambda call: None, "h": lambda call: "handler" if call.verb == "a" else None}
    made = Engine(tmp_path, tool, handlers=handlers)
    assert made.call("a", "b") == Printed("rule 1", b"rule")
    assert made.call("a") == Printed("handler", b"handler")
    assert made.call("z") == Printed("fallback", exit_status=3, unmatched=True)


def test_state_of_handlers_and_rules_is_one(tmp_path: Path) -> None:
    def toggles(call: Call) -> str:
        call.state["on"] = not call.state.get("on", False)
        return str(call.state.get("who"))

    tool = {
        "responses": [
            {"when": {"verb": "ask", "state": {"on": "true"}}, "stdout": "on"},
            {"when": {"verb": "name"}, "set_state": {"who": "me"}},
        ],
        "handler": "h",
    }
    made = Engine(tmp_path, tool, handlers={"h": toggles})
    assert [made.out("toggle"), made.out("ask"), made.out("name"), made.out("toggle")] == ["None", "on", "", "me"]
    assert made.call("ask").answered_by == "handler"


def test_a_handler_reads_the_workspace_and_a_missing_file_is_the_agents_affair(tmp_path: Path) -> None:
    def push(call: Call) -> Reply:
        connection = json.loads(call.workspace.read_text("bindings.json"))["ConnectionId"]
        return Reply(f"pushed {connection}\n")

    made = engine(tmp_path, push)
    assert made.call("push") == Printed("handler", stderr=b"uip: bindings.json: missing\n", exit_status=1)
    (tmp_path / "secret.json").write_text('{"ConnectionId": "secret"}')
    (made.workspace / "bindings.json").symlink_to(tmp_path / "secret.json")
    assert made.call("push").stderr == b"uip: bindings.json: leaves the workspace\n"
    (made.workspace / "bindings.json").unlink()
    (made.workspace / "bindings.json").write_text('{"ConnectionId": "c-1"}')
    assert made.out("push") == "pushed c-1\n"
    assert made.answers.faults == ()


def test_effects_of_a_handler_count_from_the_callers_directory(tmp_path: Path) -> None:
    (tmp_path / "task" / "project" / "src").mkdir(parents=True)
    (tmp_path / "task" / "project" / "src" / "main.py").write_text("print()\n")

    def pull(call: Call) -> Reply:
        to = call.flag("destination", ".")
        return Reply("ok\n", effects=[Copy("project", Path(to or ".")), Write(f"{to}/n.txt", b"1")])

    made = engine(tmp_path, pull)
    assert made.out("pull", "--destination", "out", cwd="sub") == "ok\n"
    assert made.out("pull", "--destination", str(made.workspace / "abs"), cwd="sub") == "ok\n"
    assert made.files() == {
        "abs/n.txt": "1",
        "abs/src/main.py": "print()\n",
        "sub/out/n.txt": "1",
        "sub/out/src/main.py": "print()\n",
    }
    refused = made.call("pull", "--destination", "../../x", cwd="sub")
    assert (refused.exit_status, refused.stdout) == (1, b"")
    assert made.answers.faults == ()


def test_a_call_can_be_made_for_the_test_of_a_handler() -> None:
    call = Call("uip", ["projects", "list", "--name", "x"], stdin="in", state={"a": 1})
    assert (call.verb, call.flag("name"), call.stdin, call.state) == ("projects list x", "x", "in", {"a": 1})
    with pytest.raises(RuntimeError, match="without a workspace"):
        _ = call.workspace
    assert repr(call) == "Call('uip', ['projects', 'list', '--name', 'x'], cwd='.', nth=1)"


VALUE_FLAGS = {"name": 1, "connector": 1, "output": {"aliases": ["o"]}, "help": {"arity": 0, "aliases": ["h"]}}


def guardrails(call: Call) -> object:
    """A service with list, create, update and delete, unique names, tombstones, and help from the real program."""
    if call.has("help"):
        return Passthrough()
    items: dict[str, dict[str, object]] = call.state.setdefault("items", {})
    name = call.flag("name")
    match call.positional:
        case ("guardrails", "list"):
            return [item for item in items.values() if not item["deleted"]]
        case ("guardrails", "create" | "update" | "delete") if not name:
            return Reply(stderr="error: required option '--name <name>' not specified\n", exit_code=2)
        case ("guardrails", "create") if name in items and not items[str(name)]["deleted"]:
            return Reply(json={"Code": "Conflict", "Message": f"{name} exists"}, exit_code=1)
        case ("guardrails", "create"):
            items[str(name)] = {"name": name, "connector": call.flag("connector"), "deleted": False}
            return items[str(name)]
        case ("guardrails", "update" | "delete") if name not in items or items[str(name)]["deleted"]:
            return Reply(json={"Code": "NotFound"}, exit_code=1)
        case ("guardrails", "update"):
            items[str(name)]["connector"] = call.flag("connector")
            return items[str(name)]
        case ("guardrails", "delete"):
            items[str(name)]["deleted"] = True
            return Reply(json={"Result": "Success"})
    return None


def test_a_whole_service_as_a_handler(tmp_path: Path) -> None:
    made = Engine(
        tmp_path, {"handler": "g", "options": VALUE_FLAGS, "stderr": "unknown command\n"}, handlers={"g": guardrails}
    )

    def asked(line: str) -> tuple[int, object]:
        printed = made.call(*line.split())
        return printed.exit_status, json.loads(printed.stdout) if printed.stdout else printed.stderr.decode()

    assert asked("guardrails list --output json") == (0, [])
    assert asked("guardrails create --connector c1")[0] == 2
    created = {"name": "pii", "connector": "c1", "deleted": False}
    assert asked("guardrails create --connector c1 --name pii") == (0, created)
    assert asked("guardrails create --name=pii -o json") == (1, {"Code": "Conflict", "Message": "pii exists"})
    assert asked("guardrails update --name pii --connector c2") == (0, created | {"connector": "c2"})
    assert asked("guardrails list") == (0, [created | {"connector": "c2"}])
    assert asked("guardrails delete --name pii") == (0, {"Result": "Success"})
    assert asked("guardrails delete --name pii") == (1, {"Code": "NotFound"})
    assert asked("guardrails list") == (0, [])
    assert asked("guardrails create --name pii --connector c3")[0] == 0
    assert asked("tenants list") == (1, "unknown command\n")
    assert made.ask("guardrails", "create", "--help") == made.ask("-h") == RunReal()
    assert made.answers.faults == ()
    made.answers.reset()
    assert asked("guardrails list") == (0, [])


def test_a_handler_that_does_not_answer_keeps_its_turn_in_a_sequence(tmp_path: Path) -> None:
    tool = {
        "responses": [{"when": {"verb": "go"}, "sequence": [{"handler": "h"}, {"stdout": "second"}]}],
        "sequence": [{"handler": "h"}, {"stdout": "fallback"}],
    }
    made = Engine(tmp_path, tool, handlers={"h": lambda call: "first" if call.has("yes") else None})
    assert made.ask("go").exit_status == 1
    (fault,) = made.answers.faults
    assert fault.startswith("uip: fallback: TypeError: the handler returned None, and nothing else is there to answer")
    assert [made.out("other", "--yes"), made.out("go"), made.out("go", "--yes"), made.out("go")] == [
        *("first", "fallback", "first", "second"),
    ]


def test_a_handler_of_a_table_is_found_from_the_tables_folder(tmp_path: Path) -> None:
    shared = tmp_path / "task" / "shared"
    shared.mkdir(parents=True)
    (shared / "rules.yaml").write_text("- {when: {verb: b}, handler: 'h.py:f'}\n- {when: {verb: c}, handler: f}\n")
    (shared / "h.py").write_text("def f(call):\n    return 'table'\n")
    (shared.parent / "h.py").write_text("def f(call):\n    return 'task'\n")
    table = load_table(
        RecordedTool.model_validate({"tool": "uip", "handler": "h.py:f", "responses_from": "shared"}), shared.parent
    )
    answers = Answers(
        [table],
        workspace_root=tmp_path,
        write_file=lambda path, content, executable: None,
        make_folder=lambda path: None,
        find_handler=functools.partial(find_handler, by_name=lambda text: lambda call: f"named {text}"),
        trial="t",
    )
    said = [answers.answer(Request("uip", (verb,), str(tmp_path))) for verb in "abc"]
    assert said == [Printed("handler", text) for text in (b"task", b"table", b"named f")]


MADE = """
import functools, pytest
@pytest.fixture
def fixed():
    return None
def generates(call):
    yield "x"
async def waits(call):
    return "x"
async def both(call):
    yield "x"
class Service:
    def __call__(self, call):
        yield "x"
class Plain:
    def __call__(self, call):
        return "plain"
service = Service()
partial = functools.partial(generates)
fine = Plain()
def many(call, more):
    return "many" + more
also = functools.partial(many, more="!")
bound = fine.__call__
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("fixed", "fixed is a fixture: name it without the file, and have it in a conftest.py"),
        ("generates", "a generator; expected a function that returns its reply"),
        ("partial", "a generator; expected"),
        ("service", "a generator; expected"),
        ("both", "a generator; expected"),
        ("waits", "a coroutine; expected"),
        ("Service", "a class; expected"),
    ],
)
def test_what_cannot_be_a_handler_is_told_before_any_call(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "h.py").write_text(MADE)
    with pytest.raises(TrialError) as error:
        find_handler(f"h.py:{name}", tmp_path, no_names)
    assert str(error.value).startswith(f"handler 'h.py:{name}': {told}")
    assert error.value.cause is Cause.CONFIGURATION


@pytest.mark.parametrize(("name", "answer"), [("fine", "plain"), ("also", "many!"), ("bound", "plain")])
def test_whatever_returns_a_reply_can_be_a_handler(tmp_path: Path, name: str, answer: str) -> None:
    (tmp_path / "h.py").write_text(MADE)
    assert find_handler(f"h.py:{name}", tmp_path, no_names)(Call("uip")) == answer


def test_a_named_handler_is_held_to_the_same(tmp_path: Path) -> None:
    def generates(call: Call) -> Any:
        yield "x"

    with pytest.raises(TrialError, match="handler 'named': a generator"):
        find_handler("named", tmp_path, lambda name: generates)


STATEFUL = """
import dataclasses, functools

@dataclasses.dataclass
class Item:
    number: "int"

calls = []

@functools.lru_cache
def answer(call):
    calls.append(call)
    return str(Item(len(calls)).number) + str(__annotations__)

x: int = 1

def other(call):
    return str(len(calls))
"""


def test_a_handler_file_is_executed_once_for_each_trial_under_no_rules_but_its_own(tmp_path: Path) -> None:
    path = tmp_path / "h.py"
    path.write_text(STATEFUL)
    for _ in range(2):
        modules: dict[Path, types.ModuleType] = {}
        answer = find_handler("h.py:answer", tmp_path, no_names, modules)
        other = find_handler("h.py:other", tmp_path, no_names, modules)
        assert answer(Call("uip")) == "1{'x': <class 'int'>}"
        assert other(Call("uip")) == "1"
        assert source_of(answer) == path
    path.write_text("def answer(call):\n    return 'changed'\n")
    assert find_handler("h.py:answer", tmp_path, no_names)(Call("uip")) == "changed"


@pytest.mark.parametrize("text", ["raise SystemExit(3)", "import pytest; pytest.fail('no')", "1 +", "import gone_"])
def test_a_handler_file_that_cannot_be_executed_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "h.py").write_text(text)
    with pytest.raises(TrialError, match=r"handler 'h\.py:f': ") as error:
        find_handler("h.py:f", tmp_path, no_names)
    assert error.value.cause is Cause.CONFIGURATION


@pytest.mark.parametrize("name", ["fine", "also", "bound"])
def test_the_source_of_whatever_is_a_handler_is_known(tmp_path: Path, name: str) -> None:
    (tmp_path / "h.py").write_text(MADE)
    assert source_of(find_handler(f"h.py:{name}", tmp_path, no_names)) == tmp_path / "h.py"


def test_a_handler_without_a_source_has_none() -> None:
    assert source_of(print) is None
