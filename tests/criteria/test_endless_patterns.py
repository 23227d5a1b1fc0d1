"""A regular expression that does not end becomes an error within seconds, wherever an author may write one."""

from __future__ import annotations

import json
import signal
import threading
import time

import pytest

from pytest_codereval.errors import JudgingError
from pytest_codereval.judging.bounded import bounded

from .build import call

PATTERN = "(a+)+$"
TEXT = "a" * 40 + "!"
SECONDS = 0.3

CASES = {
    "file_matches_regex": {"type": "file_matches_regex", "path": "a.txt", "pattern": PATTERN},
    "file_check": {"type": "file_check", "path": "a.txt", "patterns": [{"pattern": PATTERN}]},
    "command_executed": {"type": "command_executed", "command_pattern": PATTERN},
    "exclude_pattern": {"type": "command_executed", "exclude_pattern": PATTERN},
    "run_command": {
        "type": "run_command",
        "command": "cat a.txt",
        "expected_stdout": PATTERN,
        "stdout_match": "regex",
    },
    "cli_called": {"type": "cli_called", "tool": "t", "flags": {"f": {"matches_regex": PATTERN}}},
    "json_check": {
        "type": "json_check",
        "path": "a.json",
        "assertions": [{"expression": "@", "operator": "regex", "expected": PATTERN}],
    },
    "json_schema": {"type": "json_check", "path": "a.json", "json_schema": "schema.json"},
}


@pytest.mark.parametrize("name", CASES)
def test_endless_pattern_is_an_error_in_seconds(judge, workspace, name):
    (workspace / "a.txt").write_text(TEXT)
    (workspace / "a.json").write_text(json.dumps(TEXT))
    (workspace / "schema.json").write_text(json.dumps({"pattern": PATTERN}))
    (workspace / "cli_mocks").mkdir()
    record = {"tool": "t", "argv": ["--f", TEXT], "exit": 0}
    (workspace / "cli_mocks" / "calls.jsonl").write_text(json.dumps(record) + "\n")
    started = time.process_time()
    with pytest.raises(JudgingError, match=r"took more than 0\.3 s of CPU time"):
        bounded(lambda: judge(calls=[call("Bash", command=TEXT)], **CASES[name]), SECONDS)
    assert time.process_time() - started < 10 * SECONDS


def spin() -> None:
    while True:
        try:
            while True:
                pass
        except Exception:
            continue


def test_result_and_exceptions_come_through():
    assert bounded(lambda: 5) == 5
    with pytest.raises(KeyError, match="why"):
        bounded(lambda: {}["why"])
    with pytest.raises(KeyboardInterrupt):
        bounded(lambda: signal.raise_signal(signal.SIGINT))


def test_except_exception_does_not_stop_the_alarm():
    with pytest.raises(JudgingError):
        bounded(spin, SECONDS)


def test_waiting_does_not_count():
    assert bounded(lambda: time.sleep(0.5) or "slept", 0.2) == "slept"


def test_handler_and_timer_are_as_before():
    rang = []
    before = signal.signal(signal.SIGVTALRM, lambda *_: rang.append(1))
    signal.setitimer(signal.ITIMER_VIRTUAL, 50, 7)
    try:
        handler = signal.getsignal(signal.SIGVTALRM)
        assert bounded(lambda: 1) == 1
        with pytest.raises(JudgingError):
            bounded(spin, SECONDS)
        assert signal.getsignal(signal.SIGVTALRM) is handler
        left, interval = signal.getitimer(signal.ITIMER_VIRTUAL)
        assert 40 < left <= 50
        assert interval == pytest.approx(7, abs=0.1)
        assert not rang
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def test_no_timer_is_left_behind():
    with pytest.raises(JudgingError):
        bounded(spin, SECONDS)
    bounded(lambda: 1)
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def in_thread(call):
    """Return what `call` returned or raised in a thread of its own."""
    outcome = []

    def run():
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    return outcome[0]


class Odd(Exception):
    """An error that cannot be pickled."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def raise_odd():
    raise Odd("this", "that")


def test_other_threads_are_bounded_too():
    assert in_thread(lambda: bounded(lambda: 5)) == 5
    assert isinstance(in_thread(lambda: bounded(spin, SECONDS)), JudgingError)
    assert isinstance(in_thread(lambda: bounded(lambda: {}["why"])), KeyError)
    odd = in_thread(lambda: bounded(raise_odd))
    assert isinstance(odd, JudgingError)
    assert "this and that" in str(odd)
    assert isinstance(in_thread(lambda: bounded(lambda: threading.Lock())), Exception)
    killed = in_thread(lambda: bounded(lambda: signal.raise_signal(signal.SIGKILL)))
    assert "without an answer" in str(killed)
