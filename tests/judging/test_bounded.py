"""The limit on computing time: what it stops, what does not count, and that it leaves nothing behind."""

from __future__ import annotations

import resource
import signal
import threading
import time

import pytest

from pytest_codereval.criteria.contract import Evidence, Verdict
from pytest_codereval.errors import JudgingError
from pytest_codereval.judging import judge as judge_module
from pytest_codereval.judging.bounded import bounded, paused
from pytest_codereval.judging.judge import judge
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.sandbox.workspace import Workspace

from ..criteria.build import criterion

SECONDS = 0.2


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
    assert bounded(lambda: time.sleep(0.2) or "slept", 0.1) == "slept"


def _user_time():
    return resource.getrusage(resource.RUSAGE_THREAD).ru_utime


def burn(seconds):
    """Use CPU time in this thread, as the clock of `bounded` counts it: outside the kernel."""
    end = _user_time() + seconds
    while _user_time() < end:
        sum(range(20_000))
    return "burnt"


def burn_paused(seconds=2 * SECONDS):
    with paused():
        return burn(seconds)


def test_work_in_a_pause_does_not_count():
    assert bounded(burn_paused, SECONDS) == "burnt"


@pytest.mark.parametrize("before", [0, 0.7 * SECONDS])
def test_after_a_pause_the_clock_goes_on_where_it_stopped(before):
    def call():
        burn(before)
        burn_paused()
        burn(0.7 * SECONDS)
        return "done"

    if before:
        with pytest.raises(JudgingError):
            bounded(call, SECONDS)
    else:
        assert bounded(call, SECONDS) == "done"


def test_after_a_pause_an_endless_call_is_stopped():
    with pytest.raises(JudgingError):
        bounded(lambda: [burn_paused(0.05), spin()], SECONDS)


def test_a_pause_in_a_pause_ends_with_the_outer_one():
    def call():
        with paused():
            burn_paused(0)
            return burn(2 * SECONDS)

    assert bounded(call, SECONDS) == "burnt"


def test_a_pause_ends_when_its_work_fails():
    def call():
        with pytest.raises(KeyError), paused():
            raise KeyError
        spin()

    with pytest.raises(JudgingError):
        bounded(call, SECONDS)


def test_a_pause_without_a_limit_does_nothing():
    assert burn_paused(0) == "burnt"
    assert in_thread(lambda: burn_paused(0)) == "burnt"
    assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0, 0)


def test_a_pause_in_another_thread_stops_nobodys_clock():
    entered, leave = threading.Event(), threading.Event()

    def other():
        with paused():
            entered.set()
            leave.wait(60)

    def call():
        thread.start()
        entered.wait(60)
        spin()

    thread = threading.Thread(target=other)
    try:
        with pytest.raises(JudgingError):
            bounded(call, SECONDS)
    finally:
        leave.set()
        thread.join()


def test_a_pause_works_where_another_thread_is_bounded():
    assert in_thread(lambda: bounded(burn_paused, SECONDS)) == "burnt"
    stopped = in_thread(lambda: bounded(lambda: [burn_paused(0), spin()], SECONDS))
    assert isinstance(stopped, JudgingError)


def test_an_inner_limit_leaves_the_outer_one():
    assert bounded(lambda: bounded(burn_paused, SECONDS), SECONDS) == "burnt"

    def inside_a_pause():
        with paused():
            return bounded(lambda: burn(0.5 * SECONDS), SECONDS) and burn(0.7 * SECONDS)

    assert bounded(inside_a_pause, SECONDS) == "burnt"
    with pytest.raises(JudgingError):
        bounded(lambda: [bounded(lambda: burn(0.5 * SECONDS), SECONDS), spin()], 0.7 * SECONDS)


@pytest.mark.parametrize(
    ("shell_burns", "pattern", "verdict"),
    [(2 * SECONDS, "x", Verdict.FAIL), (0, "(a+)+$", Verdict.ERROR)],
)
def test_what_the_harness_computes_while_a_command_runs_is_not_the_criterions(
    tmp_path, monkeypatch, shell_burns, pattern, verdict
):
    """A command that floods its output ends at its timeout and fails; the criterion's own search is still bounded."""

    def shell(command, *, timeout, shims=False):
        burn(shell_burns)
        return ProcessResult(137 if shell_burns else 0, b"a" * 40 + b"!", timed_out=bool(shell_burns))

    monkeypatch.setattr(judge_module, "CPU_SECONDS", SECONDS)
    evidence = Evidence(Workspace(tmp_path), None, InvocationLog(), shell)
    fields = {"type": "run_command", "command": "yes", "expected_stdout": pattern, "stdout_match": "regex"}
    (result,) = judge([criterion(**fields)], evidence)
    assert result.verdict is verdict, result
    if verdict is Verdict.FAIL:
        assert result.reason == "did not end within its timeout of 30 s"


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
