"""The helper process in which regular expressions run that an agent's input could make endless."""

from __future__ import annotations

import os
import re
import signal
import threading
import time

import pytest

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.recorder.answers import guarded as module
from pytest_codereval.recorder.answers.guarded import OutOfTime, guarded
from pytest_codereval.recorder.texts import TextTest


def test_results_and_exceptions_come_back() -> None:
    assert guarded(TextTest.holds, TextTest("matches_regex", ("^a\udcff$",)), "a\udcff") is True
    with pytest.raises(CoderEvalError, match="unterminated subpattern"):
        guarded(re.compile, "(")


def test_other_threads_run_while_a_call_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SECONDS", 0.5)
    seen: list[float] = []
    stop = threading.Event()

    def ticks() -> None:
        while not stop.is_set():
            seen.append(time.monotonic())
            stop.wait(0.02)

    thread = threading.Thread(target=ticks)
    thread.start()
    with pytest.raises(OutOfTime, match="may never end"):
        guarded(re.search, "^(a|a)*$", "a" * 60 + "b")
    stop.set()
    thread.join()
    assert len(seen) > 3
    assert guarded(re.fullmatch, "b", "a") is None


@pytest.mark.parametrize("noticed", [True, False])
def test_a_helper_that_was_killed_is_replaced(monkeypatch: pytest.MonkeyPatch, noticed: bool) -> None:
    first = guarded(os.getpid)
    process = module._helper._process
    assert process is not None
    os.kill(first, signal.SIGKILL)
    process.wait()
    if not noticed:
        monkeypatch.setattr(process, "poll", lambda: None)
    assert guarded(os.getpid) not in (first, os.getpid())


def test_a_call_that_kills_its_helper_is_told() -> None:
    with pytest.raises(CoderEvalError, match="the process that searches by regular expressions failed"):
        guarded(os._exit, 1)
    assert guarded(re.fullmatch, "b", "a") is None


def test_an_answer_that_nobody_waited_for_is_not_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    first = guarded(os.getpid)
    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            guarded(time.sleep, 2.0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert guarded(os.getpid) not in (first, os.getpid(), None)


def test_a_forked_child_has_a_helper_of_its_own() -> None:
    ours = guarded(os.getpid)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(guarded(os.getpid)).encode())
            module._helper.at_exit()
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        theirs = int(pipe.read())
    os.waitpid(child, 0)
    assert theirs != ours
    assert guarded(os.getpid) == ours
