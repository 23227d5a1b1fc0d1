"""Criterion type cli_called: exit status, stdin, directory and order of calls, and verdicts during a run."""

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
from pytest_codereval.errors import JudgingError
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.recorder.options import Option
from pytest_codereval.sandbox.workspace import Workspace

from .build import criterion

DELETE_NOTHING: dict[str, Any] = {"min_count": 0, "max_count": 0}


def made(line: str, **fields: Any) -> Invocation:
    """An ended call with status 0 in the workspace, unless it says otherwise."""
    tool, *argv = line.split()
    return Invocation(0, tool, tuple(argv), **{"cwd": ".", "exit_status": 0, "ended": 2.0, **fields})


def evidence_of(calls: Sequence[Invocation | str], named: Mapping[str, Any] | None = None, **log: Any) -> Evidence:
    ready = [made(call) if isinstance(call, str) else call for call in calls]
    numbered = tuple(dataclasses.replace(call, sequence=number) for number, call in enumerate(ready, start=1))
    recorded = InvocationLog(**{"invocations": numbered, "recorded_tools": frozenset({"uip", "curl"}), **log})
    patterns = {name: called(name=name, **fields) for name, fields in (named or {}).items()}
    return Evidence(Workspace(Path("/nowhere")), None, recorded, shell=_no_shell, cli_patterns=patterns)


def _no_shell(command: str, *, timeout: float, shims: bool = False) -> Any:
    raise AssertionError("cli_called runs nothing")


def called(**fields: Any) -> Any:
    return criterion(type="cli_called", **fields)


def judged(calls: Sequence[Invocation | str], named: Mapping[str, Any] | None = None, **fields: Any) -> Judgement:
    return check(called(**fields), evidence_of(calls, named))


# -- exit_code, stdin, cwd


@pytest.mark.parametrize(
    ("facet", "yes", "no", "difference"),
    [
        ({"exit_code": 0}, {}, {"exit_status": 2}, "exit_code: expected 0, got 2"),
        ({"exit_code": [0, 3]}, {"exit_status": 3}, {"exit_status": 1}, "exit_code: expected 0 or 3, got 1"),
        (
            {"exit_code": 137},
            {"exit_status": 137},
            {"exit_status": None, "ended": None},
            "exit_code: expected 137, but it is unknown: the call was killed before it ended",
        ),
        ({"stdin": "a\n"}, {"stdin": "a\n"}, {"stdin": "b"}, "stdin equals 'a\\n': got 'b'"),
        ({"stdin": {"contains": "a"}}, {"stdin": "bab"}, {"stdin": ""}, "stdin contains 'a': it was empty"),
        (
            {"stdin": {"matches_regex": "a$"}},
            {"stdin": "x" * 99999 + "a"},
            {},
            "stdin matches_regex 'a$': it was not read",
        ),
        ({"stdin": {"matches_regex": "^"}}, {"stdin": "\n"}, {"stdin": ""}, "stdin matches_regex '^': it was empty"),
        ({"stdin": {"present": True}}, {"stdin": "x"}, {"stdin": ""}, "stdin present: it was empty"),
        ({"stdin": {"absent": True}}, {}, {"stdin": "x"}, "stdin absent: got 'x'"),
        ({"stdin": {"absent": True}}, {"stdin": ""}, {"stdin": "x" * 200}, "..."),
        ({"cwd": "."}, {}, {"cwd": "src"}, "cwd equals '.': got 'src'"),
        ({"cwd": {"any_of": ["src", "/tmp"]}}, {"cwd": "/tmp"}, {"cwd": "/"}, "cwd any_of ['src', '/tmp']: got '/'"),
        ({"cwd": {"contains": "s"}}, {"cwd": "src"}, {"cwd": ""}, "cwd contains 's': it is not known"),
    ],
)
def test_facets_of_a_recorded_call(
    facet: dict[str, Any], yes: dict[str, Any], no: dict[str, Any], difference: str
) -> None:
    assert judged([made("uip get", **yes)], verb="get", **facet).score == 1.0
    other = judged([made("uip get", **no)], verb="get", **facet)
    assert other.score == 0.0
    assert difference in other.details
    guard = judged([made("uip get", **no)], verb="get", **facet, **DELETE_NOTHING)
    assert guard.score == 1.0
    assert "guard held; nearest: uip get  <- " in guard.reason


def test_arguments_differ_before_circumstances_and_the_nearest_call_comes_first() -> None:
    calls: list[Invocation | str]
    calls = [made("uip get b", exit_status=1), made("uip get a", exit_status=1), made("uip list", exit_status=0)]
    result = judged(calls, verb="get", positional=["a"], exit_code=0)
    assert result.details.splitlines()[1:] == [
        "  uip get a  <- exit_code: expected 0, got 1",
        "  uip get b  <- positional 1: expected 'a', got 'b'",
        "  uip list  <- verb: expected 'get', got 'list'",
    ]


def test_a_log_of_a_mock_tells_the_exit_status_alone(tmp_path: Path) -> None:
    (tmp_path / "calls.jsonl").write_text('{"tool": "uip", "argv": ["get"], "exit": 3}\n{"argv": ["put"]}\n')
    evidence = dataclasses.replace(evidence_of([], recorded_tools=frozenset()), workspace=Workspace(tmp_path))
    assert check(called(verb="get", log="calls.jsonl", exit_code=3), evidence).score == 1.0
    unknown = check(called(verb="put", log="calls.jsonl", exit_code=3), evidence)
    assert "exit_code: expected 3, but the log does not tell it" in unknown.details
    for name in ("stdin", "cwd"):
        asked = called(verb="get").model_copy(
            update={"log": "calls.jsonl", name: getattr(called(verb="x", **{name: {"contains": ""}}), name)}
        )
        assert check(asked, evidence).score == 0.0


def test_the_options_of_each_tool_cut_its_calls() -> None:
    calls = ["uip -f json get p", "curl -f get p", "uip get p"]
    options = {"uip": (Option(("format", "f"), 1),)}
    evidence = evidence_of(calls, options=options)
    assert check(called(verb="get", positional=["p"], min_count=3, max_count=3), evidence).score == 1.0
    both = called(verb="get", flags={"f": {"present": True}}, min_count=2, max_count=2)
    assert check(both, evidence).score == 1.0
    assert check(called(tool="uip", flags={"format": {"equals": "json"}}), evidence).score == 1.0


# -- after and before


NAMED = {"login": {"verb": "login"}, "delete": {"verb": "delete"}, "late login": {"verb": "login", "after": "delete"}}


@pytest.mark.parametrize(
    ("order", "calls", "count"),
    [
        ({"after": "login"}, "get login get get", 2),
        ({"after": "login"}, "get get", 0),
        ({"after": "login"}, "get login", 0),
        ({"before": "delete"}, "get get delete get", 2),
        ({"before": "delete"}, "get", 1),
        ({"before": "delete"}, "delete get", 0),
        ({"after": "login", "before": "delete"}, "get login get delete get", 1),
        ({"after": "late login"}, "login get delete get login get", 1),
        ({"before": "late login"}, "login get delete get login get", 2),
    ],
)
def test_calls_count_by_their_order(order: dict[str, str], calls: str, count: int) -> None:
    lines: list[Invocation | str] = [f"uip {verb}" for verb in calls.split()]
    assert judged(lines, NAMED, verb="get", **order, min_count=count, max_count=count).score == 1.0
    assert judged(lines, NAMED, verb="get", **order, min_count=count + 1).score == 0.0


def test_a_call_is_neither_after_nor_before_itself() -> None:
    get = {"get": {"verb": "get"}}
    assert (
        judged(["uip get", "uip get", "uip get"], get, tool="uip", after="get", min_count=2, max_count=2).score == 1.0
    )
    assert judged(["uip login", "uip get"], get, tool="uip", before="get", min_count=1, max_count=1).score == 1.0


def test_bounds_of_the_other_criterion_do_not_matter_but_its_facets_do() -> None:
    named = {"login": {"verb": "login", "exit_code": 0, "min_count": 5}}
    failed = made("uip login", exit_status=1)
    assert judged([failed, "uip get"], named, verb="get", after="login").score == 0.0
    assert judged([failed, "uip login", "uip get"], named, verb="get", after="login").score == 1.0


def test_which_order_was_broken() -> None:
    late = judged(["uip get a", "uip login"], NAMED, verb="get", after="login")
    assert late.details.splitlines()[1] == "  uip get a  <- after login: no such call was made before it"
    early = judged(["uip delete", "uip get a"], NAMED, verb="get", before="delete", min_count=0, max_count=3)
    assert "guard held; nearest: uip get a  <- before delete: such a call was made already" in early.reason


def test_a_sequence_is_made_with_its_last_call() -> None:
    named = {"setup": {"sequence": [{"verb": "login"}, {"verb": "init"}]}}
    lines = ["uip init", "uip login", "uip get", "uip init", "uip get"]
    assert judged(lines, named, verb="get", after="setup", max_count=1).score == 1.0
    assert judged(lines, named, verb="get", before="setup", max_count=1).score == 1.0


def test_an_order_that_nobody_can_know_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JudgingError, match="'other' names no cli_called criterion"):
        judged(["uip get"], NAMED, verb="get", after="other")
    circle = {"a": {"verb": "a", "after": "b"}, "b": {"verb": "b", "before": "a"}}
    with pytest.raises(JudgingError, match="in a circle: a -> b -> a"):
        judged(["uip get"], circle, verb="get", after="a")
    elsewhere = {"mock": {"verb": "login", "log": "mocks/calls.jsonl"}}
    with pytest.raises(JudgingError, match="'mock' stand in another log"):
        judged(["uip get"], elsewhere, verb="get", after="mock")


def test_what_came_before_an_unseen_builtin_is_an_error() -> None:
    evidence = evidence_of(
        ["uip get"],
        {"print": {"tool": "printf"}},
        recorded_tools=frozenset({"uip", "printf"}),
        builtin_tools=frozenset({"printf"}),
    )
    with pytest.raises(JudgingError, match=r"builtin of shells.*before is open"):
        check(called(tool="uip", verb="get", before="print"), evidence)
    assert check(called(tool="uip", verb="get"), evidence).score == 1.0


# -- sequences


STEPS = [{"verb": "login", "exit_code": 0}, {"verb": "get"}, {"verb": "delete", "tool": "uip"}]


@pytest.mark.parametrize(
    ("calls", "count"),
    [
        ("", 0),
        ("login get delete", 1),
        ("get login list get get delete delete", 1),
        ("login get login get delete delete", 2),
        ("login get delete login get delete", 2),
        ("delete get login", 0),
        ("login get", 0),
    ],
)
def test_sequences_are_counted_in_order_without_overlap(calls: str, count: int) -> None:
    lines: list[Invocation | str] = [f"uip {verb}" for verb in calls.split()]
    assert judged(lines, sequence=STEPS, min_count=count, max_count=count).score == 1.0
    assert judged(lines, sequence=STEPS, min_count=count + 1).score == 0.0


def test_interleaved_sequences_are_counted_for_a_most_number_too() -> None:
    steps: Any = [{"verb": "a"}, {"verb": "b"}]
    lines: list[Invocation | str] = ["uip a", "uip a", "uip b", "uip b"]
    assert judged(lines, sequence=steps, min_count=2).score == 1.0
    assert judged(lines, sequence=steps, max_count=1).score == 0.0
    begun = judged(["uip a", "uip a", "uip b"], sequence=steps, min_count=2)
    assert begun.reason == "1 complete sequence, expected at least 2"
    assert begun.details.startswith("step 2 of 2 was not called after:\n  uip a\n")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=9))
def test_as_many_disjoint_sequences_are_counted_as_there_are(verbs: list[str]) -> None:
    left: list[list[str]] = []
    count = 0
    for verb in verbs:
        step = "abc".index(verb)
        run = next((run for run in left if len(run) == step), None)
        if step == 0:
            left.append([verb])
        elif run is not None:
            run.append(verb)
            count += len(run) == 3
    lines: list[Invocation | str] = [f"uip {verb}" for verb in verbs]
    steps: Any = [{"verb": verb} for verb in "abc"]
    assert judged(lines, sequence=steps, min_count=count, max_count=count).score == 1.0


def test_one_call_is_one_step() -> None:
    twice = [{"verb": "get"}, {"tool": "uip"}]
    assert judged(["uip get"], sequence=twice).score == 0.0
    assert judged(["uip get", "uip get", "uip get"], sequence=twice, max_count=1).score == 1.0


def test_how_far_a_sequence_got() -> None:
    calls: list[Invocation | str]
    calls = ["uip delete x", made("uip login", exit_status=1), "uip login", "curl x", "uip get a", "uip del x"]
    result = judged(calls, sequence=STEPS)
    assert result.reason == "0 complete sequences, expected at least 1"
    assert result.details.splitlines() == [
        "step 3 of 3 was not called after:",
        "  uip login",
        "  uip get a",
        "nearest of 6 calls recorded:",
        "  uip delete x  <- it came too early",
        "  uip login  <- verb: expected 'delete', got 'login'",
        "  uip login  <- verb: expected 'delete', got 'login'",
        "  +3 more",
    ]
    first = judged(["uip list"], sequence=STEPS)
    assert first.details.startswith("step 1 of 3 was not called\nnearest of 1 call recorded:\n")
    assert judged([], sequence=STEPS).reason.endswith("; no call was recorded")


def test_too_many_sequences_are_told_by_their_last_calls() -> None:
    lines = ["uip login", "uip get", "uip delete 1", "uip login", "uip get", "uip delete 2"]
    result = judged(lines, sequence=STEPS, min_count=0, max_count=1)
    assert (result.reason, result.details) == (
        "2 complete sequences, expected at most 1",
        "  uip delete 1\n  uip delete 2",
    )


# -- guards that nothing matched


@pytest.mark.parametrize(
    ("fields", "calls", "nearest"),
    [
        ({"verb": "projects delete"}, ["uip projects list", "curl x"], "uip projects list  <- verb: expected"),
        ({"verb": "projects delete"}, ["uip list", "curl projects"], None),
        ({"verb": "projects delete"}, ["curl projects list"], None),
        ({"verb": "delete", "positional": ["p"]}, ["uip delete q"], "uip delete q  <- positional 1"),
        ({"flags": {"force": {"present": True}}}, ["uip delete q"], None),
        ({"positional": ["q"], "flags": {"f": {"present": True}}}, ["uip q"], "uip q  <- flag -f present"),
        ({"flags": {"force": {"absent": True}}}, ["uip q --force"], "uip q --force  <- flag --force absent"),
        ({"exit_code": 1}, ["uip q"], None),
        ({"exit_code": 1, "cwd": "."}, ["uip q"], "uip q  <- exit_code"),
        ({}, [], None),
        ({"before": "q"}, ["uip q"], "uip q  <- before q"),
        ({"sequence": [{"verb": "login"}, {"verb": "rm all"}]}, ["uip login", "uip rm x"], "uip rm x  <- verb"),
        ({"sequence": [{"verb": "login"}, {"verb": "rm all"}]}, ["uip login", "uip get"], None),
        ({"sequence": [{"verb": "login"}, {"verb": "rm"}]}, ["uip rm", "uip login"], "uip rm  <- it came too early"),
    ],
)
def test_whether_a_guard_could_have_matched(fields: dict[str, Any], calls: list[str], nearest: str | None) -> None:
    reason = judged(calls, {"q": {"verb": "q"}}, tool="uip", **fields, **DELETE_NOTHING).reason
    if nearest is None:
        assert reason.endswith("(guard unproven: a pattern with a typo would match nothing either)")
    else:
        assert f"(guard held; nearest: {nearest}" in reason
        assert "\n" not in reason


# -- verdicts during a run

words = st.sampled_from(["login", "get", "delete"])
CALLS = st.builds(
    lambda tool, verb, status, stdin: made(f"{tool} {verb}", exit_status=status, stdin=stdin),
    st.sampled_from(["uip", "uip", "curl"]),
    words,
    st.sampled_from([0, 0, 1, None]),
    st.sampled_from([None, "", "x"]),
)
NAMES = {
    "login": {"verb": "login", "exit_code": 0},
    "delete": {"verb": "delete", "tool": "uip", "after": "login"},
    "fed": {"tool": "uip", "stdin": {"absent": True}, "before": "delete"},
    "both": {"sequence": [{"verb": "login"}, {"verb": "get", "exit_code": [0, 1]}]},
}
FACETS = st.fixed_dictionaries(
    {"tool": st.sampled_from(["uip", "curl"])},
    optional={
        "verb": words,
        "exit_code": st.sampled_from([0, [0, 1]]),
        "stdin": st.sampled_from([{"absent": True}, {"present": True}, "x"]),
        "after": st.sampled_from(list(NAMES)),
        "before": st.sampled_from(list(NAMES)),
    },
) | st.fixed_dictionaries({"sequence": st.lists(st.fixed_dictionaries({"verb": words}), min_size=1, max_size=3)})
BOUNDS = st.sampled_from(
    [{"min_count": 1}, {"min_count": 2}, {"min_count": 0, "max_count": 0}, {"min_count": 1, "max_count": 2}]
)


def _unended(call: Invocation) -> Invocation:
    return dataclasses.replace(call, exit_status=None, stdin=None, ended=None)


@settings(max_examples=150, deadline=None)
@given(st.lists(CALLS, max_size=8), FACETS, BOUNDS, st.data())
def test_a_live_verdict_stays_and_is_the_final_one(
    calls: list[Invocation], facets: dict[str, Any], bounds: dict[str, int], data: st.DataObject
) -> None:
    calls = [dataclasses.replace(call, ended=None) if call.exit_status is None else call for call in calls]
    asked = called(**facets, **bounds)
    ends = [data.draw(st.integers(index + 1, len(calls))) for index in range(len(calls))]
    said = []
    for length in range(len(calls) + 1):
        so_far = [call if ends[index] <= length else _unended(call) for index, call in enumerate(calls[:length])]
        said.append(live_verdict(asked, evidence_of(so_far, NAMES)))
    certain = [verdict for verdict in said if verdict is not None]
    assert said[len(said) - len(certain) :] == certain
    final = Verdict.PASS if check(asked, evidence_of(calls, NAMES)).score == 1.0 else Verdict.FAIL
    assert set(certain) <= {final}


@pytest.mark.parametrize(
    ("fields", "calls", "verdict"),
    [
        ({"verb": "get"}, ["uip get"], Verdict.PASS),
        ({"verb": "get", "min_count": 2}, ["uip get"], None),
        ({"verb": "get", "max_count": 2}, ["uip get"], None),
        ({"verb": "get", **DELETE_NOTHING}, ["uip get"], Verdict.FAIL),
        ({"verb": "get", **DELETE_NOTHING}, ["uip put"], None),
        ({"verb": "get", "exit_code": 0}, [made("uip get", exit_status=None, ended=None)], None),
        ({"verb": "get", "stdin": {"absent": True}}, [made("uip get", exit_status=None, ended=None)], None),
        ({"verb": "get", "after": "login"}, ["uip login", "uip get"], Verdict.PASS),
        ({"verb": "get", "before": "delete"}, ["uip get"], None),
        ({"verb": "get", "before": "delete", **DELETE_NOTHING}, ["uip get"], Verdict.FAIL),
        (
            {"verb": "get", "before": "ok", **DELETE_NOTHING},
            [made("uip login", exit_status=None, ended=None), "uip get"],
            None,
        ),
        (
            {"verb": "get", "before": "ok", **DELETE_NOTHING},
            [made("uip login", exit_status=1), "uip get"],
            Verdict.FAIL,
        ),
        ({"sequence": [{"verb": "login"}, {"verb": "get"}]}, ["uip login", "uip get"], Verdict.PASS),
        ({"verb": "get", "enabled": False}, ["uip get"], None),
        ({"verb": "get", "pass_threshold": 0, **DELETE_NOTHING}, ["uip get"], None),
        ({"verb": "get", "log": "mocks/calls.jsonl"}, ["uip get"], None),
        ({"verb": "get", "tool": "git"}, ["uip get"], None),
        ({"verb": "get", "after": "nobody"}, ["uip get"], None),
    ],
)
def test_live_verdicts(fields: dict[str, Any], calls: list[Invocation | str], verdict: Verdict | None) -> None:
    named = {**NAMED, "ok": {"verb": "login", "exit_code": 0}}
    assert live_verdict(called(**fields), evidence_of(calls, named)) is verdict


def test_no_live_verdict_from_damaged_evidence() -> None:
    assert live_verdict(called(verb="get"), evidence_of(["uip get"], faults=("tampered: gone",))) is None
    unseen: dict[str, Any] = {"recorded_tools": frozenset({"uip"}), "builtin_tools": frozenset({"uip"})}
    assert live_verdict(called(verb="get", **DELETE_NOTHING), evidence_of(["uip get"], **unseen)) is None
