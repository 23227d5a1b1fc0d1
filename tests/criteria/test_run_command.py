"""run_command: exit status, output and score, with real processes and with results as a sandbox hands them over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_codereval.criteria import run_command
from pytest_codereval.criteria.contract import Evidence
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.protocol import DEFAULT_OUTPUT_LIMIT, ProcessResult

from .build import criterion


def ran(stdout: bytes = b"", *, exit_status: int = 0, **fields):
    """Judge a run_command whose command gave this output."""
    options = {name: fields.pop(name) for name in ("truncated", "timed_out", "stderr") if name in fields}
    result = ProcessResult(exit_status, stdout, **options)
    evidence = Evidence(None, None, InvocationLog(), lambda command, *, timeout, shims: result)
    return run_command.check(criterion(type="run_command", command="c", **fields), evidence)


@pytest.mark.parametrize(
    ("command", "fields", "score"),
    [
        ("true", {}, 1),
        ("false", {}, 0),
        ("exit 3", {"expected_exit_code": 3}, 1),
        ("exit 3", {"expected_exit_code": 2}, 0),
        ("echo hi", {"expected_stdout": "hi"}, 1),
        ("echo '  hi  '; echo", {"expected_stdout": "hi\n"}, 1),
        ("echo hi there", {"expected_stdout": "hi"}, 0),
        ("echo hi there", {"expected_stdout": " hi ", "stdout_match": "contains"}, 1),
        ("echo hi >&2", {"expected_stdout": "hi", "stdout_match": "contains"}, 0),
        ("echo version 3.11", {"expected_stdout": r"^version \d+", "stdout_match": "regex"}, 1),
        ("echo version x", {"expected_stdout": r"^version \d+", "stdout_match": "regex"}, 0),
        ("echo hi; exit 1", {"expected_stdout": "hi"}, 0),
        ("printf 'a\\r\\nb'", {"expected_stdout": "a\nb"}, 1),
        ("cat", {"expected_stdout": ""}, 1),
        ("test -f made && cat made", {"expected_stdout": "x"}, 1),
        ("kill -9 $$", {"expected_exit_code": 137}, 1),
        ("nosuchcommand", {"expected_exit_code": 127}, 1),
    ],
)
def test_commands(judge, workspace, command, fields, score):
    (workspace / "made").write_text("x")
    judgement = judge(type="run_command", command=command, **fields)
    assert judgement.score == score, judgement
    assert f"command: {command}" in judgement.details


def test_hang_is_a_fail_at_its_timeout(judge):
    judgement = judge(type="run_command", command="echo begun; sleep 60", timeout=2, expected_stdout="begun")
    assert judgement.score == 0
    assert judgement.reason == "did not end within its timeout of 2 s"
    assert "begun" in judgement.details


def test_timeout_beats_the_exit_status():
    assert ran(timed_out=True, exit_status=137, expected_exit_code=137).score == 0


@pytest.mark.parametrize(
    ("stdout", "score"),
    [
        (b"0.75\n", 0.75),
        (b"1\n", 1),
        (b"  .5  \n", 0.5),
        (b"\n\n0.5\n", 0.5),
        (b"0.8\r\nsecond line", 0.8),
        (b"1.5", 1),
        (b"-3", 0),
        (b"5e-1", 0.5),
        (b"", 0),
        (b"\n", 0),
        (b"nan", 0),
        (b"inf", 0),
        (b"-Infinity", 0),
        (b"1e400", 0),
        (b"0.95extra", 0),
        (b"0.9 of 1", 0),
        (b"1_0", 0),
        (b"\xd9\xa1", 0),
        (b"1\xff", 0),
        (b"0x1", 0),
    ],
)
def test_score_from_stdout(stdout, score):
    judgement = ran(stdout, score_from_stdout=True)
    assert judgement.score == score
    assert judgement.reason


def test_score_counts_only_with_the_expected_exit_status():
    assert ran(b"0.8", exit_status=1, score_from_stdout=True).score == 0
    assert ran(b"0.8", exit_status=1, score_from_stdout=True, expected_exit_code=1).score == 0.8


@given(st.floats())
def test_score_from_stdout_stays_between_0_and_1(number):
    assert 0 <= ran(repr(number).encode(), score_from_stdout=True).score <= 1


@given(st.binary())
def test_any_output_gives_a_score(stdout):
    assert ran(stdout, score_from_stdout=True).score >= 0
    assert ran(stdout, expected_stdout="x").score == (stdout.strip(b"\r\n\t\v\f \x1c\x1d\x1e\x1f") == b"x")


def test_stdout_that_is_not_utf8_never_equals_replacement_characters():
    judgement = ran(b"a\xff", expected_stdout="a\ufffd")
    assert judgement.score == 0
    assert "not UTF-8" in judgement.reason
    assert ran(b"a\xff", expected_stdout="a\ufffd", stdout_match="contains").score == 0
    assert ran(b"a\xff", expected_stdout="a\ufffd", stdout_match="regex").score == 0
    assert ran("a\ufffd".encode(), expected_stdout="a\ufffd").score == 1
    assert ran(b"\xff found \xff", expected_stdout="found", stdout_match="contains").score == 1


CUT = b"x" * DEFAULT_OUTPUT_LIMIT


@pytest.mark.parametrize("how", ["exact", "regex"])
def test_cut_output_proves_no_match_of_the_whole(how):
    expected = CUT.decode() if how == "exact" else "^x+$"
    judgement = ran(CUT, truncated=True, expected_stdout=expected, stdout_match=how)
    assert judgement.score == 0
    assert "was cut at 1000000 bytes" in judgement.reason
    assert ran(CUT, expected_stdout=expected, stdout_match=how).score == 1


def test_cut_output_may_contain():
    assert ran(b"begin" + CUT[5:], truncated=True, expected_stdout="begin", stdout_match="contains").score == 1
    judgement = ran(CUT, truncated=True, expected_stdout="end", stdout_match="contains")
    assert judgement.score == 0
    assert "the first 1000000 bytes" in judgement.reason


def test_cut_stderr_is_not_cut_stdout():
    assert ran(b"ok", truncated=True, stderr=CUT, expected_stdout="ok").score == 1


def test_score_of_a_cut_output_needs_a_whole_first_line():
    assert ran(b"0.5\n" + CUT[4:], truncated=True, score_from_stdout=True).score == 0.5
    assert ran(b"1" * DEFAULT_OUTPUT_LIMIT, truncated=True, score_from_stdout=True).score == 0


def test_endless_output_is_cut_and_said(judge):
    judgement = judge(type="run_command", command="head -c 1500000 /dev/zero | tr '\\0' x", expected_stdout="x")
    assert judgement.score == 0
    assert "more than 1000000 bytes" in judgement.details
    assert len(judgement.details) < 10_000


def test_details_show_both_streams():
    details = ran(b"", stderr=b"oops", exit_status=4).details
    assert "exit status: 4" in details
    assert "stdout: (empty)" in details
    assert "stderr:\noops" in details


def test_shims_are_asked_for_only_by_the_criterion():
    asked = []

    def shell(command, *, timeout, shims=False):
        asked.append((timeout, shims))
        return ProcessResult(0)

    evidence = Evidence(None, None, InvocationLog(), shell)
    run_command.check(criterion(type="run_command", command="c"), evidence)
    run_command.check(criterion(type="run_command", command="c", shims=True, timeout=7), evidence)
    assert asked == [(30, False), (7, True)]
