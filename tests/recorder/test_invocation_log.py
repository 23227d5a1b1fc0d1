"""Logs of calls: the reader's tolerance, the writer, and the file in the workspace."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.errors import JudgingError
from pytest_codereval.recorder import log as log_module
from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.recorder.log import log_in_workspace, parse_log, render_log

from .shadowing import NonRoot

VECTORS = Path(__file__).resolve().parents[3] / "shared" / "vectors" / "parse_log.jsonl"

CALL = Invocation(1, "uip", ("a b", "\udcff", "é\n"), "sub", 12.3456, 12.5, 3, "rule 2")
LOG = InvocationLog((CALL,), frozenset({"uip"}))


def argvs(text: str) -> list[list[str]]:
    return [list(call.argv) for call in parse_log(text).invocations]


@pytest.mark.parametrize(
    "line",
    [
        *("}{", "[1]", "null", '"x"', "7", "{}", "\0", "[" * 100_000, '{"argv": "a b"}', '{"argv": ["a", 7]}'),
        *('{"argv": null}', '{"argv": ["a"]', '{"argv": {"0": "a"}}', '{"argv": ["a"]} x'),
        '{"argv": ["a"], "ts": ' + "9" * 5000 + "}",
    ],
    ids=range(15),
)
def test_lines_that_hold_no_call_are_counted(line: str) -> None:
    parsed = parse_log(f'{{"argv": ["before"]}}\n{line}\n{{"argv": ["after"]}}')
    assert [call.argv for call in parsed.invocations] == [("before",), ("after",)]
    assert parsed.unusable == 1


def test_blank_lines_line_ends_and_a_mark_at_the_start_are_no_fault() -> None:
    text = '\ufeff\n{"argv": ["a\u2028b\x85c"]}\r\n   \n\r\n{"argv": []}\n'
    assert argvs(text) == [["a\u2028b\x85c"], []]
    assert parse_log(text).unusable == 0
    assert parse_log("").invocations == ()


def test_the_other_fields_are_taken_where_they_make_sense() -> None:
    whole = {"ts": 5.5, "tool": "uip", "argv": ["x"], "exit": 3, "rule": 2, "more": []}
    odd = {"ts": True, "tool": 7, "argv": ["x"], "exit": "3", "rule": "first"}
    huge = '{"argv": ["x"], "ts": 1e999, "exit": true}'
    text = "\n".join([json.dumps(whole), json.dumps(odd), huge])
    calls = parse_log(text).invocations
    assert calls[0] == Invocation(1, "uip", ("x",), time=5.5, exit_status=3, answered_by="rule 2")
    assert calls[1] == Invocation(2, "", ("x",))
    assert calls[2] == Invocation(3, "", ("x",))


def test_errors_that_the_writer_tells_of() -> None:
    lines = [
        {"tool": "uip", "argv": ["x"], "rule_error": "TypeError()"},
        {"argv": [], "sidecar_error": {"nested": True}},
        {"tool": "uip", "argv": ["x"], "rule_error": None},
    ]
    errors = parse_log("\n".join(map(json.dumps, lines))).errors
    assert [(error.tool, error.field, error.message) for error in errors] == [
        ("uip", "rule_error", "TypeError()"),
        ("", "sidecar_error", "{'nested': True}"),
    ]


calls = st.builds(
    Invocation,
    sequence=st.just(1),
    tool=st.text(max_size=5),
    argv=st.lists(st.binary(max_size=10).map(os.fsdecode), max_size=4).map(tuple),
    time=st.floats(0, 1e10).map(lambda seconds: round(seconds, 3)),
    exit_status=st.none() | st.integers(0, 255),
)


@given(st.lists(calls, max_size=5))
def test_what_is_written_is_read_again(made: list[Invocation]) -> None:
    text = render_log(made)
    assert text.isascii()
    assert text.count("\n") == len(made)
    read = parse_log(text)
    assert (read.unusable, read.errors) == (0, ())
    assert [(c.tool, c.argv, c.time, c.exit_status) for c in read.invocations] == [
        (c.tool, c.argv, c.time, c.exit_status) for c in made
    ]


def test_a_call_that_was_killed_has_no_end() -> None:
    fields = json.loads(render_log([Invocation(1, "uip", (), answered_by="handler")]))
    assert (fields["end"], fields["exit"], fields["answered_by"]) == (None, None, "handler")
    assert "rule" not in fields


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    parsed = parse_log(text)
    assert parsed.unusable + len(parsed.invocations) <= text.count("\n") + 1


def test_agrees_with_the_vectors() -> None:
    if not VECTORS.exists():
        pytest.skip("the recorded vectors are not here")
    for row in map(json.loads, VECTORS.read_text(encoding="utf-8").splitlines()):
        parsed = parse_log(row["text"])
        assert {"argvs": argvs(row["text"]), "unusable": parsed.unusable} == row["expected"], row["id"]


# -- the file in the workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "trial" / "workspace"
    path.mkdir(parents=True)
    (path / "a.txt").write_text("a")
    return path


def tree(root: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        mode = oct(path.lstat().st_mode)
        if path.is_symlink():
            found[name] = (mode, path.readlink())
        else:
            found[name] = (mode, path.read_text() if path.is_file() else None)
    return found


def test_the_log_is_there_only_in_between(root: Path) -> None:
    before = tree(root)
    for _ in range(2):
        with log_in_workspace(root, LOG):
            text = (root / "cli_mocks" / "calls.jsonl").read_text()
            assert json.loads(text) == {
                "ts": 12.346,
                "end": 12.5,
                "tool": "uip",
                "argv": ["a b", "\udcff", "é\n"],
                "cwd": "sub",
                "exit": 3,
                "answered_by": "rule 2",
                "rule": 2,
            }
            assert [path.name for path in (root / "cli_mocks").iterdir()] == ["calls.jsonl"]
        assert tree(root) == before


def make_directory(root: Path) -> None:
    (root / "cli_mocks" / "sub").mkdir(parents=True)
    (root / "cli_mocks" / "calls.jsonl").write_text("forged")


def make_locked(root: Path) -> None:
    make_directory(root)
    (root / "cli_mocks").chmod(0o000)


def make_file(root: Path) -> None:
    (root / "cli_mocks").write_text("mine")


def make_link(root: Path) -> None:
    (root.parent / "elsewhere").mkdir()
    (root.parent / "elsewhere" / "keep").write_text("k")
    (root / "cli_mocks").symlink_to(root.parent / "elsewhere")


def make_dangling(root: Path) -> None:
    (root / "cli_mocks").symlink_to("nowhere")


def make_inner_link(root: Path) -> None:
    (root / "cli_mocks").mkdir()
    (root / "cli_mocks" / "calls.jsonl").symlink_to(root / "a.txt")


def make_fifo(root: Path) -> None:
    os.mkfifo(root / "cli_mocks")


def make_read_only(root: Path) -> None:
    make_directory(root)
    root.chmod(0o555)


MAKERS = [make_directory, make_locked, make_file, make_link, make_dangling, make_inner_link, make_fifo, make_read_only]


def show(root: Path) -> tuple[str, str]:
    """The listing of the whole trial, kept by find because it works for locked folders too."""
    mode = oct(root.stat().st_mode)
    listing = subprocess.run(["find", root.parent, "-printf", "%P %y %m %i %l\n"], capture_output=True, check=False)
    return mode, listing.stdout.decode()


@pytest.mark.parametrize("make", MAKERS)
def test_what_the_agent_put_there_comes_back(root: Path, make: Any) -> None:
    make(root)
    mode, before = show(root)
    with log_in_workspace(root, LOG):
        assert (root / "cli_mocks" / "calls.jsonl").read_text() == render_log(LOG.invocations)
        assert not (root / "cli_mocks").is_symlink()
        (root / "cli_mocks" / "made-by-a-criterion").write_text("x")
    again, after = show(root)
    kept = [line for line in after.splitlines() if not line.startswith(".cli_mocks-used-")]
    assert kept == before.splitlines()
    assert again == mode
    assert (root / "a.txt").read_text() == "a"
    if make is make_link:
        assert [path.name for path in (root.parent / "elsewhere").iterdir()] == ["keep"]


@pytest.mark.parametrize("make", [make_locked, make_read_only])
def test_the_same_for_a_user_who_is_not_root(make: Any, non_root: NonRoot) -> None:
    root = non_root.home / "workspace"
    root.mkdir()
    make(root)
    non_root.own()
    before = show(root)

    def place_and_remove() -> None:
        with log_in_workspace(root, LOG):
            assert (root / "cli_mocks" / "calls.jsonl").read_text() == render_log(LOG.invocations)

    non_root.run(place_and_remove)
    kept = [line for line in show(root)[1].splitlines() if not line.startswith(".cli_mocks-used-")]
    assert (show(root)[0], kept) == (before[0], before[1].splitlines())


def test_names_that_the_agent_planted_beside_the_workspace_are_not_in_the_way(root: Path) -> None:
    make_directory(root)
    with log_in_workspace(root, LOG):
        aside = [path.name for path in root.parent.iterdir() if path != root]
    for name in (*aside, ".cli_mocks-of-the-agent", ".cli_mocks-aside", ".cli_mocks-used-0"):
        (root.parent / name).mkdir(exist_ok=True)
    before = show(root)
    with log_in_workspace(root, LOG):
        assert (root / "cli_mocks" / "calls.jsonl").read_text() == render_log(LOG.invocations)
    kept = [line for line in show(root)[1].splitlines() if line in before[1].splitlines()]
    assert kept == before[1].splitlines()


def test_what_cannot_be_moved_aside_is_told_and_stays(root: Path) -> None:
    make_directory(root)
    mounted = subprocess.run(["mount", "--bind", root.parent, root / "cli_mocks"], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(JudgingError) as caught, log_in_workspace(root, LOG):
            pass
        assert str(caught.value) == (
            "cli_mocks/calls.jsonl could not be put into the workspace: "
            "what the agent left there cannot be moved aside: Device or resource busy"
        )
    finally:
        subprocess.run(["umount", root / "cli_mocks"], check=True)
    assert (root / "cli_mocks" / "calls.jsonl").read_text() == "forged"


def test_a_log_that_cannot_be_written_is_told_and_what_was_there_comes_back(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_directory(root)
    before = tree(root)
    monkeypatch.setattr(log_module, "LOG_NAME", "x" * 300)
    with pytest.raises(JudgingError, match="could not be put into the workspace: File name too long"):
        log_in_workspace(root, LOG).__enter__()
    assert tree(root) == before


@pytest.mark.parametrize("kind", ["missing", "link", "file"])
def test_a_workspace_that_is_gone_gets_no_log(tmp_path: Path, kind: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "cli_mocks").mkdir(parents=True)
    root = tmp_path / "workspace"
    if kind == "link":
        root.symlink_to(elsewhere)
    elif kind == "file":
        root.write_text("x")
    with log_in_workspace(root, LOG):
        assert list((elsewhere / "cli_mocks").iterdir()) == []
    assert [path.name for path in elsewhere.iterdir()] == ["cli_mocks"]


def test_a_criterion_may_leave_nothing_of_the_workspace(root: Path) -> None:
    make_directory(root)
    with log_in_workspace(root, LOG):
        root.rename(root.parent / "away")
    assert not root.exists()
