"""Replies that come late: what is decided when the call comes, and what only when its delay has passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.recorder.answering import Later, Printed, ReadStdin, RunReal
from pytest_codereval.recorder.answers.call import Call, Copy, Reply, Write

from .engine import Engine

LOGIN = {"when": {"verb": "login"}, "delay": 5, "set_state": {"login": "yes"}, "stdout": "welcome"}
WHO = {"when": {"verb": "who", "state": {"login": "yes"}}, "stdout": "me"}


def late(engine: Engine, *argv: str, **how: Any) -> Later:
    answer = engine.ask(*argv, **how)
    assert isinstance(answer, Later)
    return answer


def test_state_is_set_when_the_delay_has_passed(tmp_path: Path) -> None:
    engine = Engine(tmp_path, {"responses": [LOGIN, WHO], "stdout": "nobody"})
    killed, waiting = late(engine, "login"), late(engine, "login")
    assert (killed.delay, killed.answered_by, killed.unmatched) == (5.0, "rule 0", False)
    assert engine.out("who") == "nobody"
    assert waiting.finish() == Printed("rule 0", b"welcome")
    assert engine.out("who") == "me"


def test_effects_and_templates_wait_but_the_rule_and_its_counters_do_not(tmp_path: Path) -> None:
    reply = {
        "delay": 1,
        "template": True,
        "stdout": "{{ nth }} {{ state.x }} {{ stdin }}",
        "effects": [{"write": "{{ argv[1] }}", "content": "{{ state.x }}"}],
    }
    rules = [
        {"when": {"verb": "go"}, "sequence": [reply, {"stdout": "second"}]},
        {"when": {"verb": "set"}, "set_state": {"x": "set"}},
    ]
    engine = Engine(tmp_path, {"responses": rules})
    assert isinstance(engine.ask("go", "a"), ReadStdin)
    answer = late(engine, "go", "a", stdin=b"in")
    assert [engine.out("go"), engine.out("set"), engine.files()] == ["second", "", {}]
    assert answer.finish() == Printed("rule 0", b"1 set in")
    assert engine.files() == {"a": "set"}


def test_a_late_fallback_is_still_no_match(tmp_path: Path) -> None:
    engine = Engine(tmp_path, {"responses": [LOGIN], "delay": 1, "template": True, "stdout": "{{ verb }}"})
    answer = late(engine, "other")
    assert (answer.answered_by, answer.unmatched) == ("fallback", True)
    assert answer.finish() == Printed("fallback", b"other", exit_status=1, unmatched=True)


def test_a_handler_runs_at_once_and_its_effects_are_done_later(tmp_path: Path) -> None:
    def build(call: Call) -> Reply:
        call.state["built"] = "yes"
        return Reply("built", exit_code=3, delay=2, effects=[Write("out", call.verb)])

    engine = Engine(
        tmp_path, {"responses": [WHO | {"when": {"state": {"built": "yes"}}}], "handler": "h"}, handlers={"h": build}
    )
    answer = late(engine, "build", cwd="sub")
    assert (answer.delay, answer.answered_by) == (2, "handler")
    assert engine.out("build") == "me"
    assert engine.files() == {}
    assert answer.finish() == Printed("handler", b"built", exit_status=3)
    assert engine.files() == {"sub/out": "build"}


def test_what_is_the_same_at_any_time_is_settled_at_once(tmp_path: Path) -> None:
    rules = [
        {"when": {"verb": "a"}, "stdout": "a", "delay": 1},
        {"when": {"verb": "b"}, "passthrough": True, "delay": 2},
    ]
    engine = Engine(tmp_path, {"responses": rules, "handler": "h"}, handlers={"h": lambda call: Reply("h", delay=3)})
    answers = [Printed("rule 0", b"a", delay=1.0), RunReal(delay=2.0), Printed("handler", b"h", delay=3)]
    assert [engine.ask(verb) for verb in "abc"] == answers


@pytest.mark.parametrize(
    ("effect", "stderr", "fault"),
    [
        (Write("../out", ""), b"uip: ../out: outside of the workspace\n", None),
        (Copy("gone", "x"), b"uip: internal error\n", "uip: handler 'h': "),
    ],
)
def test_what_goes_wrong_late_is_told_as_if_at_once(
    tmp_path: Path, effect: Write | Copy, stderr: bytes, fault: str | None
) -> None:
    engine = Engine(tmp_path, {"handler": "h"}, handlers={"h": lambda call: Reply("x", delay=1, effects=[effect])})
    answer = late(engine, "a", "b c")
    engine.ask("other")
    assert engine.answers.faults == ()
    assert answer.finish() == Printed("handler", stderr=stderr, exit_status=1)
    assert engine.answers.at_work == "handler 'h'"
    faults = engine.answers.faults
    assert (len(faults), all(told.startswith(str(fault)) for told in faults)) == (0 if fault is None else 1, True)
    assert all(told.endswith("the call was: uip a 'b c'") for told in faults)
