"""Criterion type cli_called: calls that went past the recorder, as the transcript tells of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_codereval.criteria.cli_called import check, live_verdict
from pytest_codereval.criteria.contract import Evidence, Judgement, Verdict
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.trajectory.model import ToolCall, Trajectory

from .build import call, criterion
from .test_cli_order import BOUNDS, CALLS, FACETS, NAMES
from .test_cli_order import evidence_of as recorded_evidence

GUARD: dict[str, Any] = {"min_count": 0, "max_count": 0}
SHIMS = "/tmp/trial/bin"


def ran(command: str, status: str = "success", **fields: Any) -> ToolCall:
    return dataclasses.replace(call("Bash", status, command=command), **fields)


def evidence_of(
    commands: Sequence[ToolCall | str], recorded: Sequence[str] = (), named: Mapping[str, Any] | None = None
) -> Evidence:
    """What the transcript tells, beside the calls that were recorded at the seconds 10, 20, 30, ..."""
    invocations = tuple(
        Invocation(number, line.split()[0], tuple(line.split()[1:]), ".", time=number * 10.0, exit_status=0, ended=99.0)
        for number, line in enumerate(recorded, start=1)
    )
    log = InvocationLog(invocations, frozenset({"uip", "curl"}), shim_dir=SHIMS)
    trajectory = Trajectory(tuple(item if isinstance(item, ToolCall) else ran(item) for item in commands))
    patterns = {name: asked(name=name, **fields) for name, fields in (named or {}).items()}
    return Evidence(Workspace(Path("/nowhere")), trajectory, log, shell=_no_shell, cli_patterns=patterns)


def _no_shell(command: str, *, timeout: float, shims: bool = False) -> Any:
    raise AssertionError("cli_called runs nothing")


def asked(**fields: Any) -> Any:
    return criterion(type="cli_called", **{"tool": "uip", **fields})


def judged(commands: Sequence[ToolCall | str], recorded: Sequence[str] = (), **fields: Any) -> Judgement:
    return check(asked(**fields), evidence_of(commands, recorded))


@pytest.mark.parametrize(
    "command",
    [
        "/usr/bin/uip delete x",
        "cd src && /usr/bin/uip delete x | tail -1",
        "bash -lc '/usr/bin/uip delete x'",
        "env -i /usr/bin/uip delete x",
        "command -p uip delete x",
        "PATH=/usr/bin uip delete x",
        "true || /usr/bin/uip delete y; /usr/bin/uip delete 'x'",
    ],
)
def test_a_call_past_the_recorder_trips_a_guard_and_satisfies_nothing(command: str) -> None:
    guard = judged([command], verb="delete", **GUARD)
    assert (guard.score, guard.reason) == (0.0, "1 matching call, 1 of them past the recorder, expected none")
    assert guard.details.splitlines()[0] == "  uip delete x"
    assert "past the recorder: " in guard.details
    least = judged([command], verb="delete")
    assert (least.score, least.reason) == (0.0, "0 matching calls, expected at least 1; no call was recorded")
    assert "past the recorder: " in least.details


@pytest.mark.parametrize(
    "command",
    [
        "echo /usr/bin/uip delete x",
        "true || /usr/bin/uip delete x",
        "# /usr/bin/uip delete x",
        "/usr/bin/git delete x",
        "/usr/bin/curl delete x",
        "/usr/bin/uip list",
        "./tools/uip delete x",
        "cd tools && ../tools/uip delete x",
        "sleep 9; uip delete x &",
        "test -f y && uip delete x || true",
        "npx uip-tools delete x",
        "busybox --list | grep 'uip delete x'",
    ],
)
def test_what_did_not_go_past_the_recorder(command: str) -> None:
    assert judged([command], verb="delete", **GUARD).score == 1.0


@pytest.mark.parametrize(
    "command",
    [
        "uip delete x",
        f"{SHIMS}/uip delete x",
        "source venv/bin/activate && uip delete x",
        "hash -p /usr/bin/uip uip; uip delete x",
        "export PATH=/usr/bin:$PATH; uip delete x",
        "sudo uip delete x",
        "busybox uip delete x",
        "timeout 5 toybox uip delete x",
        "cd /usr/bin && ./uip delete x",
        "cd .. && ./bin/uip delete x",
        "../bin/uip delete x",
        "./node_modules/.bin/uip delete x",
        ".venv/bin/uip delete x",
        "$HOME/bin/uip delete x",
    ],
)
def test_a_call_that_certainly_ran_and_was_not_recorded_went_past_the_recorder(command: str) -> None:
    assert judged([command], verb="delete", **GUARD).score == 0.0
    assert judged([command], ["uip delete x"], verb="delete", max_count=1).score == 1.0
    assert judged([command], verb="delete").score == 0.0


def test_a_program_that_does_not_exist_was_not_called() -> None:
    missing = ran("/opt/nowhere/uip delete x", "error", exit_status=127)
    assert judged([missing], verb="delete", **GUARD).score == 1.0
    hidden = ran("/usr/bin/uip delete x; nowhere", "error", exit_status=127)
    assert judged([hidden], verb="delete", **GUARD).score == 0.0


def test_a_call_of_the_shell_that_was_refused_ran_nothing() -> None:
    assert judged([ran("uip delete x", "error")], verb="delete", **GUARD).score == 1.0
    assert judged([ran("uip delete x", "error", exit_status=1)], verb="delete", **GUARD).score == 0.0
    unopened = ran("uip delete x < nowhere.json", "error", exit_status=1)
    assert judged([unopened], verb="delete", **GUARD).score == 1.0
    assert judged([ran("uip delete x < there.json", exit_status=0)], verb="delete", **GUARD).score == 0.0
    assert judged([ran("uip delete x 2>&1", "error", exit_status=1)], verb="delete", **GUARD).score == 0.0
    assert judged([call("Bash", command="uip delete x", run_in_background=True)], verb="delete", **GUARD).score == 1.0


def test_the_program_of_the_workspace_is_known_by_its_absolute_path(tmp_path: Path) -> None:
    for command, score in ((f"{tmp_path}/tools/uip delete x", 1.0), (f"cd {tmp_path} && ./uip delete x", 1.0)):
        evidence = dataclasses.replace(evidence_of([command]), workspace=Workspace(tmp_path))
        assert check(asked(verb="delete", **GUARD), evidence).score == score
        assert check(asked(verb="delete", **GUARD), evidence_of([command])).score == 0.0


def test_a_launcher_that_is_recorded_itself_was_called() -> None:
    log = InvocationLog((Invocation(1, "npx", ("uip", "list")),), frozenset({"npx", "uip"}))
    evidence = dataclasses.replace(evidence_of(["npx uip list"]), invocations=log)
    assert check(asked(**GUARD), evidence).score == 1.0


def test_files_and_values_of_a_recorded_call_are_found_behind_what_the_shell_expands() -> None:
    for command in ("uip delete *.json", "uip delete ~/a.json", "uip delete [ab].json b.json", "uip delete $FILES"):
        calls = ["uip delete a.json", "uip delete a.json b.json", "uip delete /root/a.json"]
        assert judged([command], calls, verb="delete", max_count=3).score == 1.0
    assert judged(["uip delete dir=~/a"], ["uip delete dir=/root/a"], verb="delete", max_count=1).score == 1.0
    assert judged(["uip delete dir=~/a"], ["uip delete x=/root/a"], verb="delete", max_count=1).score == 0.0
    assert judged(["uip delete *.json"], ["uip delete a.txt"], verb="delete", max_count=1).score == 0.0


def test_one_recorded_call_excuses_one_command_however_it_is_written() -> None:
    for commands in (["uip delete $A", "uip delete x"], ["uip delete x", "uip delete $A"], ["uip $A", "uip delete $B"]):
        assert judged(commands, ["uip delete x"], verb="delete", max_count=1).score == 0.0
        assert judged(commands, ["uip delete x", "uip delete y"], verb="delete", max_count=2).score == 1.0


def test_code_that_names_the_tool_by_its_path_is_told() -> None:
    code = "perl -e 'system(\"/usr/bin/uip delete x\")'"
    guard = judged([code, code], ["uip list"], verb="delete", **GUARD)
    assert guard.score == 1.0
    assert guard.note.endswith("the code of an interpreter names /usr/bin/uip")
    assert guard.details == "the code of an interpreter names /usr/bin/uip"
    for command in ("python3 -c 'print(1) # /usr/bin/uip x'", "python3 -m json.tool <<E\n/usr/bin/uip\nE", "uip list"):
        assert "interpreter" not in judged([command], ["uip list"], verb="delete", **GUARD).note


def test_what_should_be_seen_beside_a_pass() -> None:
    assert judged([], ["uip list"], verb="delete", **GUARD).note.startswith("guard unproven")
    assert judged([], ["uip delete x"], verb="delete", positional=["y"], **GUARD).note == ""
    assert judged([], ["uip delete x"], verb="delete").note == ""
    assert judged(["/bin/uip list"], ["uip delete x"], verb="delete").note == "past the recorder: /bin/uip list"


def test_text_of_other_tools_is_no_call() -> None:
    texts = [call("Write", command="/usr/bin/uip delete x"), call("Bash", other="/usr/bin/uip delete x")]
    assert judged(texts, verb="delete", **GUARD).score == 1.0
    assert judged([call("exec", command="/usr/bin/uip delete x")], verb="delete", **GUARD).score == 0.0


def test_a_call_that_was_recorded_after_all_counts_once() -> None:
    commands = ["/usr/bin/uip delete x"]
    once = judged(commands, ["uip delete x"], verb="delete", max_count=1)
    assert (once.score, once.details) == (1.0, "")
    assert judged(["/usr/bin/uip delete $WHAT"], ["uip delete x"], verb="delete", max_count=1).score == 1.0


def test_a_recorded_call_stands_for_one_command() -> None:
    both = ["uip delete x", "/usr/bin/uip delete x"]
    result = judged(both, ["uip delete x"], verb="delete", max_count=1)
    assert (result.score, result.reason) == (
        0.0,
        "2 matching calls, 1 of them past the recorder, expected 1",
    )
    assert judged(both, ["uip delete x", "uip delete x"], verb="delete", max_count=2).score == 1.0


def test_what_the_transcript_does_not_tell_is_taken_as_asked() -> None:
    for facets in ({"exit_code": 0}, {"exit_code": 7}, {"cwd": "src"}, {"stdin": "x"}):
        unknown = ran("/usr/bin/uip delete x | tail")
        assert judged([unknown], verb="delete", **facets, **GUARD).score == 0.0
    for command, score in (("delete $WHAT", 0.0), ("$VERB x", 0.0), ("list $WHAT", 1.0), ("delete a $REST", 1.0)):
        assert judged([f"/usr/bin/uip {command}"], verb="delete", positional=["x"], **GUARD).score == score
    undone: dict[str, Any] = {"flags": {"dry-run": {"absent": True}, "name": {"equals": "x"}}}
    assert judged(["/usr/bin/uip delete $REST"], verb="delete", **undone, **GUARD).score == 0.0
    assert judged(["/usr/bin/uip delete --dry-run $REST"], verb="delete", **undone, **GUARD).score == 1.0
    succeeded, failed = ran("/usr/bin/uip delete x"), ran("/usr/bin/uip delete x", "error")
    assert judged([succeeded], verb="delete", exit_code=[1, 2], **GUARD).score == 1.0
    assert judged([failed], verb="delete", exit_code=0, **GUARD).score == 1.0
    assert judged([failed], verb="delete", exit_code=[1, 2], **GUARD).score == 0.0


def test_calls_past_the_recorder_are_listed_beside_every_verdict() -> None:
    commands = [f"/usr/bin/uip list {number}" for number in range(5)]
    lines = [f"past the recorder: /usr/bin/uip list {number}" for number in range(3)]
    passed = judged(commands, ["uip get"], verb="get")
    assert (passed.score, passed.details.splitlines()) == (1.0, [*lines, "  +2 more"])
    assert judged(commands, ["uip get"], verb="put").details.splitlines()[-4:] == [*lines, "  +2 more"]


# -- their order among recorded calls

LOGIN, BACKUP = {"verb": "login"}, {"verb": "backup"}


def judged_in_order(at: float, recorded: Sequence[str], command: str, **fields: Any) -> float:
    commands = [ran(command, started=at, ended=at + 1 if at else None)]
    return check(asked(**fields), evidence_of(commands, recorded, {"login": LOGIN, "backup": BACKUP})).score


@pytest.mark.parametrize(("at", "score"), [(5.0, 1.0), (15.0, 0.0), (0.0, 0.0)])
def test_a_guard_after_a_recorded_call(at: float, score: float) -> None:
    assert judged_in_order(at, ["uip login"], "/bin/uip delete", verb="delete", after="login", **GUARD) == score


@pytest.mark.parametrize(("at", "score"), [(5.0, 0.0), (15.0, 1.0), (0.0, 0.0)])
def test_a_guard_before_a_recorded_call(at: float, score: float) -> None:
    assert judged_in_order(at, ["uip backup"], "/bin/uip delete", verb="delete", before="backup", **GUARD) == score


@pytest.mark.parametrize(("at", "score"), [(5.0, 0.0), (15.0, 1.0), (0.0, 0.0)])
def test_a_claimed_call_comes_before_a_recorded_one(at: float, score: float) -> None:
    assert judged_in_order(at, ["uip get"], "/bin/uip backup", verb="get", before="backup") == score


def test_a_claimed_call_is_nothing_to_come_after() -> None:
    assert judged_in_order(5.0, ["uip get"], "/bin/uip login", verb="get", after="login") == 0.0
    assert judged_in_order(5.0, ["uip get"], "/bin/uip login", verb="get", after="login", **GUARD) == 0.0


def test_claimed_steps_make_a_forbidden_sequence_but_no_wanted_one() -> None:
    steps: dict[str, Any] = {"sequence": [{"verb": "login"}, {"verb": "delete"}]}
    for at in (15.0, 0.0):
        assert judged_in_order(at, ["uip login", "uip get"], "/bin/uip delete", **steps, **GUARD) == 0.0
    assert judged_in_order(15.0, ["uip login", "uip get"], "/bin/uip delete", **steps) == 0.0
    assert judged_in_order(5.0, ["uip login", "uip get"], "/bin/uip delete", **steps, **GUARD) == 1.0


def test_a_live_verdict_does_not_look_at_the_transcript() -> None:
    evidence = evidence_of(["/usr/bin/uip delete x"])
    assert live_verdict(asked(verb="delete", **GUARD), evidence) is None


CLAIMS = st.builds(
    lambda typed, at, took: ran(typed, started=at, ended=at + took if at else None),
    st.sampled_from(["/usr/bin/uip login", "/usr/bin/uip get", "/usr/bin/uip delete", "uip get", "uip $X", "$UIP get"]),
    st.sampled_from([0.0, 5.0, 15.0, 35.0, 95.0]),
    st.sampled_from([0.5, 30.0]),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(CALLS, max_size=6), st.lists(CLAIMS, min_size=1, max_size=3), FACETS, BOUNDS)
def test_no_call_past_the_recorder_contradicts_a_live_verdict(
    calls: list[Invocation], claims: list[ToolCall], facets: dict[str, Any], bounds: dict[str, int]
) -> None:
    wanted = asked(**facets, **bounds)
    timed = [dataclasses.replace(item, time=number * 10.0) for number, item in enumerate(calls, start=1)]
    alone = recorded_evidence(timed, NAMES)
    final = check(wanted, dataclasses.replace(alone, trajectory=Trajectory(tuple(claims)))).score
    assert live_verdict(wanted, alone) in (None, Verdict.PASS if final else Verdict.FAIL)
    if wanted.max_count is None and not wanted.before and "fed" not in facets.values():
        assert final == check(wanted, alone).score
