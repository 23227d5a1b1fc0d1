"""Criterion type cli_called: over the recorder's calls, over logs of hand-written mocks, and its words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.criteria.cli_called import check
from pytest_codereval.criteria.contract import Evidence, Judgement
from pytest_codereval.errors import JudgingError
from pytest_codereval.judging.bounded import bounded
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.sandbox.workspace import Workspace

from .build import criterion

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "cli_called.jsonl"
DEFAULT = "cli_mocks/calls.jsonl"

Judge = Callable[..., Judgement]


def log(*calls: str, tools: tuple[str, ...] = ("uip",), faults: tuple[str, ...] = ()) -> InvocationLog:
    """The recorder's log of command lines, each with its tool first."""
    words = [call.split() for call in calls]
    invocations = tuple(Invocation(i, line[0], tuple(line[1:])) for i, line in enumerate(words, start=1))
    return InvocationLog(invocations, frozenset(tools), faults)


@pytest.fixture
def called(workspace: Path) -> Judge:
    """Judge a cli_called criterion over a log."""

    def run(recorded: InvocationLog | None = None, **fields: Any) -> Judgement:
        evidence = Evidence(Workspace(workspace), None, recorded or InvocationLog(), shell=_no_shell)
        return check(criterion(type="cli_called", **fields), evidence)

    return run


def _no_shell(command: str, *, timeout: float, shims: bool = False) -> Any:
    raise AssertionError("cli_called runs nothing")


def written(workspace: Path, *lines: Any, path: str = "mocks/calls.jsonl") -> None:
    file = workspace / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))


# -- the recorder's calls


@pytest.mark.parametrize(
    ("bounds", "calls", "score"),
    [
        ({}, 0, 0.0),
        ({}, 1, 1.0),
        ({}, 5, 1.0),
        ({"min_count": 2}, 1, 0.0),
        ({"min_count": 2}, 2, 1.0),
        ({"max_count": 1}, 2, 0.0),
        ({"min_count": 2, "max_count": 3}, 3, 1.0),
        ({"min_count": 0, "max_count": 0}, 0, 1.0),
        ({"min_count": 0, "max_count": 0}, 1, 0.0),
        ({"min_count": 0, "max_count": 1}, 1, 1.0),
    ],
)
def test_counts(called: Judge, bounds: dict[str, int], calls: int, score: float) -> None:
    recorded = log("uip logout", *["uip get p"] * calls, "curl get", tools=("uip", "curl"))
    assert called(recorded, tool="uip", verb="get", **bounds).score == score


def test_all_facets_together(called: Judge) -> None:
    fields = {
        "tool": "uip",
        "verb_any_of": ["ixp projects get", "ixp get"],
        "positional": ["p1"],
        "flags": {
            "model": {"any_of": ["pro", "lite"]},
            "yes": {"present": True, "aliases": ["y"]},
            "force": {"absent": True},
        },
        "value_flags": ["folder"],
        "ignore_flags": ["verbose"],
    }
    good = "uip ixp --verbose get --folder F p1 --model=lite -y"
    assert called(log(good), **fields).score == 1.0
    for bad in (good.replace("p1", "p2"), good.replace("-y", "-n"), good.replace("lite", "x"), f"{good} --force"):
        assert called(log(bad), **fields).score == 0.0


def test_the_file_in_the_workspace_counts_for_nothing_when_the_recorder_knows(called: Judge, workspace: Path) -> None:
    written(workspace, {"tool": "uip", "argv": ["get"]}, path=DEFAULT)
    written(workspace, "lost", path=f"{DEFAULT}.error")
    assert called(log(), verb="get").score == 0.0
    assert called(log(), verb="get", log="./cli_mocks/calls.jsonl").score == 0.0
    guard = called(log(), verb="get", min_count=0, max_count=0)
    assert guard.score == 1.0


def test_damaged_evidence_cannot_be_judged(called: Judge) -> None:
    with pytest.raises(JudgingError, match="calls may be missing: tampered: gone"):
        called(log(faults=("tampered: gone",)), verb="get", min_count=0, max_count=0)


@pytest.mark.parametrize("tool", ["printf", None])
def test_a_guard_on_a_builtin_of_shells_cannot_be_judged(called: Judge, tool: str | None) -> None:
    seen = InvocationLog((Invocation(1, "printf", ("x",)),), frozenset({"printf"}), builtin_tools=frozenset({"printf"}))
    with pytest.raises(JudgingError, match="builtin of shells"):
        called(seen, tool=tool, verb="y", min_count=0, max_count=0)
    assert called(seen, tool=tool, verb="x").score == 1.0


@pytest.mark.parametrize("bounds", [{}, {"min_count": 0, "max_count": 0}])
def test_a_tool_that_nobody_records_fails(called: Judge, bounds: dict[str, int]) -> None:
    result = called(log("uip get"), tool="curl", **bounds)
    assert result.score == 0.0
    assert "cli_mocks/calls.jsonl" in result.reason
    assert "curl is not recorded" in result.details


def test_a_tool_that_a_mock_writes_beside_the_recorder(called: Judge, workspace: Path) -> None:
    written(workspace, {"tool": "curl", "argv": ["x"]}, path=DEFAULT)
    assert called(log("uip get"), tool="curl").score == 1.0


# -- logs of hand-written mocks


@pytest.mark.parametrize("bounds", [{}, {"min_count": 0, "max_count": 0}])
@pytest.mark.parametrize("name", ["missing", "directory", "link", "binary", "no call"])
def test_a_log_that_cannot_be_used_fails_every_criterion(
    called: Judge, workspace: Path, bounds: dict[str, int], name: str
) -> None:
    place = workspace / "mocks" / "calls.jsonl"
    place.parent.mkdir()
    if name == "directory":
        place.mkdir()
    elif name == "link":
        (workspace.parent / "elsewhere").write_text('{"argv": ["get"]}\n')
        place.symlink_to(workspace.parent / "elsewhere")
    elif name == "binary":
        place.write_bytes(b'{"argv": ["get\xff"]}\n')
    elif name == "no call":
        place.write_text('{"argv": ["get"]}\n{"tool": "other"}\n')
    result = called(verb="get", log="mocks/calls.jsonl", **bounds)
    assert result.score == 0.0
    assert "the log of calls cannot be used: " in result.reason
    assert "mocks/calls.jsonl" in result.reason


@pytest.mark.parametrize("line", ['{"argv": []}', "{", '{"argv": [], "rule_error": 1}'])
def test_a_log_without_end_fails_in_time(called: Judge, workspace: Path, line: str) -> None:
    written(workspace, *[line] * 1_000_000)
    result = bounded(lambda: called(verb="get", log="mocks/calls.jsonl", min_count=0, max_count=0), 2)
    assert (result.score, result.reason) == (
        0.0,
        "the log of calls cannot be used: mocks/calls.jsonl has more than 100000 lines",
    )


def test_an_empty_log_is_a_mock_that_was_never_called(called: Judge, workspace: Path) -> None:
    written(workspace)
    assert called(verb="get", log="mocks/calls.jsonl").score == 0.0
    assert called(verb="get", log="mocks/calls.jsonl", min_count=0, max_count=0).score == 1.0


def test_what_the_mock_says_about_itself(called: Judge, workspace: Path) -> None:
    written(workspace, {"argv": ["get"], "tool": "uip"}, {"argv": [], "tool": "curl", "rule_error": "Oops()"})
    broken = called(verb="get", log="mocks/calls.jsonl")
    assert (broken.score, broken.reason) == (
        0.0,
        "the mock that wrote mocks/calls.jsonl reports an error: rule_error: Oops()",
    )
    assert called(verb="get", log="mocks/calls.jsonl", tool="uip").score == 1.0
    written(workspace, "OSError(28) ['get']", "again", path="mocks/calls.jsonl.error")
    lost = called(verb="get", log="mocks/calls.jsonl", tool="uip")
    assert (lost.score, lost.reason) == (
        0.0,
        "the mock could not log 2 calls, the first because of: OSError(28) ['get']",
    )


def test_lines_of_other_tools_count_as_unusable_too(called: Judge, workspace: Path) -> None:
    written(workspace, {"argv": ["get"], "tool": "uip"}, {"argv": "torn", "tool": "curl"})
    assert called(verb="get", log="mocks/calls.jsonl", tool="uip").score == 0.0


# -- what people read


def test_the_nearest_calls_and_what_differs(called: Judge) -> None:
    recorded = log("uip login", "uip get p2", "curl get p1", "uip get p1 --model x", "uip get", tools=("uip", "curl"))
    result = called(recorded, tool="uip", verb="get", positional=["p1"], flags={"model": "pro"})
    assert result.reason == "0 matching calls, expected at least 1"
    assert result.details.splitlines() == [
        "nearest of 5 calls recorded:",
        "  uip get p1 --model x  <- flag --model equals 'pro': got 'x'",
        "  uip get p2  <- positional 1: expected 'p1', got 'p2'",
        "  uip get  <- positional 1: expected 'p1', got nothing",
        "  +2 more",
    ]


def test_another_tool_is_the_least_near(called: Judge) -> None:
    result = called(log("curl get", tools=("uip", "curl")), tool="uip", verb="get")
    assert "curl get  <- tool: expected 'uip', got 'curl'" in result.details


def test_forbidden_calls_are_listed(called: Judge) -> None:
    result = called(log(*["uip rm x"] * 5), verb="rm", min_count=0, max_count=0)
    assert result.reason == "5 matching calls, expected none"
    assert result.details.splitlines() == ["  uip rm x", "  uip rm x", "  uip rm x", "  +2 more"]


def test_nothing_recorded_is_said(called: Judge) -> None:
    assert called(log(), verb="get").reason == "0 matching calls, expected at least 1; no call was recorded"
    assert called(log("uip get"), verb="get", min_count=2).reason == (
        "1 matching call, expected at least 2; no other call was recorded"
    )
    assert called(log("uip rm"), verb="get").details.startswith("nearest of 1 call recorded:\n")


def test_a_guard_that_nothing_matched_says_so(called: Judge) -> None:
    unproven = "(guard unproven: a pattern with a typo would match nothing either)"
    reason = called(log("uip get"), verb="rm", min_count=0, max_count=0).reason
    assert reason == f"0 matching calls, expected none, of 1 call recorded {unproven}"
    assert "of 0 calls recorded (guard unproven" in called(log(), verb="rm", min_count=0, max_count=0).reason
    assert "unproven" not in called(log("uip get"), verb="get").reason


def test_long_and_odd_arguments_are_shown_short_and_clean(called: Judge) -> None:
    call = Invocation(1, "uip", ("a b", "\x1b[31m", "\udcff", "it's\nnew", "x" * 5000))
    result = called(InvocationLog((call,), frozenset({"uip"})), verb="get")
    assert max(map(len, result.details.splitlines())) < 500
    assert "uip 'a b' '\\x1b[31m' '\\udcff' 'it'\"'\"'s\\nnew'" in result.details
    assert result.details.isprintable() or result.details.replace("\n", "").isprintable()


def test_agrees_with_the_vectors(called: Judge, workspace: Path) -> None:
    if not VECTORS.exists():
        pytest.skip("the recorded vectors are not here")
    for row in map(json.loads, VECTORS.read_text(encoding="utf-8").splitlines()):
        if isinstance(row["log"], dict):
            continue
        fields = {key: value for key, value in row["criterion"].items() if key != "type"}
        path = workspace / fields.get("log", DEFAULT)
        path.parent.mkdir(exist_ok=True)
        for file, text in ((path, row["log"]), (path.with_name(f"{path.name}.error"), row.get("log_error_file"))):
            file.unlink(missing_ok=True)
            if text is not None:
                file.write_text(text, encoding="utf-8", newline="")
        result = called(**fields)
        assert result.score == row["expected"]["score"], (row["id"], result)
        if row["expected"]["error"]:
            assert "mock" in result.reason or "cannot be used" in result.reason, row["id"]
