"""Callers who wait: answers that are settled late, and calls that nobody has answered when the agent ends."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from pytest_codereval.errors import Cause
from pytest_codereval.recorder.answering import Answer, Later, Printed, ReadStdin, Request, ShimPlan
from pytest_codereval.recorder.spool.spool import cause_of

from .shadowing import Shadow, Shadowed, Tool, until

ASKS = ShimPlan("uip", asks=True)


class Slow:
    """Answers `uip NAME SECONDS` after its seconds; keeps which were finished, and by which thread."""

    def __init__(self) -> None:
        self.finished: list[str] = []
        self.threads: set[str] = set()

    def __call__(self, request: Request) -> Answer:
        if not request.argv:
            return Printed("rule 1")
        name, seconds = request.argv
        self.threads.add(threading.current_thread().name)
        return Later("rule 0", float(seconds), lambda: self.finish(name))

    def finish(self, name: str) -> Printed:
        self.finished.append(name)
        self.threads.add(threading.current_thread().name)
        return Printed("rule 0", name.encode(), exit_status=7)


def start(tools: Shadowed, *argv: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["uip", *argv], env=tools.environment(), stdout=subprocess.PIPE)


def test_late_answers_are_settled_in_the_order_in_which_they_are_due(shadow: Shadow) -> None:
    slow, release = Slow(), threading.Event()

    def answer(request: Request) -> Answer:
        release.wait(30)
        return slow(request)

    tools = shadow(ASKS, answer=answer)
    processes = [start(tools, seconds, seconds) for seconds in ("0.9", "0.6", "0.3", "0")]
    until(lambda: len(list(tools.replies.glob("*.claim"))) == 4 and not any(tools.calls.iterdir()))
    release.set()
    assert [process.communicate(timeout=60)[0] for process in processes] == [b"0.9", b"0.6", b"0.3", b"0"]
    assert [process.returncode for process in processes] == [7] * 4
    assert slow.finished == ["0", "0.3", "0.6", "0.9"]
    assert slow.threads == {"codereval-answers"}
    log = tools.drain()
    assert {(call.answered_by, call.exit_status) for call in log.invocations} == {("rule 0", 7)}
    assert (log.faults, log.unmatched) == ((), ())
    assert all(call.ended - call.time >= float(call.argv[1]) for call in log.invocations)


def test_an_answer_is_never_settled_for_a_caller_who_was_killed(shadow: Shadow) -> None:
    slow = Slow()
    tools = shadow(ASKS, answer=slow)
    with start(tools, "killed", "1.5") as process:
        until(lambda: len(tools.answerer.requests) == 1)
        process.kill()
    assert tools.call("uip", "waited", "1.6").stdout == b"waited"
    assert slow.finished == ["waited"]
    log = tools.drain()
    assert [call.exit_status for call in log.invocations] == [None, 7]
    assert [call.answered_by for call in log.invocations] == ["rule 0", "rule 0"]
    assert (log.faults, log.unmatched) == ((), ())


def test_nothing_of_the_agents_is_settled_after_its_end(shadow: Shadow) -> None:
    slow = Slow()
    tools = shadow(ASKS, answer=slow)
    with start(tools, "agent", "1.5") as process:
        until(lambda: len(tools.answerer.requests) == 1)
        log = tools.drain()
        assert tools.call("uip", "grader", "1.6").stdout == b"grader"
        process.kill()
    assert slow.finished == ["grader"]
    assert [(call.argv[0], call.answered_by) for call in log.invocations] == [("agent", "rule 0")]
    assert log.unmatched == ()


def test_an_answer_that_cannot_be_settled_is_a_failure(shadow: Shadow) -> None:
    def fail() -> Printed:
        raise ValueError("no")

    tools = shadow(ASKS, answer=lambda request: Later("rule 0", 0.0, fail))
    assert tools.call("uip").stderr == b"uip: internal error\n"
    assert cause_of(tools.drain().faults) is Cause.ANSWERS_FAILED


def test_a_call_that_waits_for_its_input_at_the_end_matched_nothing(shadow: Shadow, interpreter: str) -> None:
    tools = shadow(ASKS, interpreter=interpreter, answer=lambda request: ReadStdin())
    with subprocess.Popen(["uip"], env=tools.environment(), stdin=subprocess.PIPE) as process:
        until(lambda: any(tools.replies.glob("*.in")))
        process.kill()
    log = tools.drain()
    assert [call.answered_by for call in log.invocations] == ["unanswered"]
    assert (log.unmatched, log.faults) == ((1,), ())


def test_a_call_that_waits_for_its_turn_at_the_end_matched_nothing(shadow: Shadow) -> None:
    """The one whose answer is in the making is waited for."""
    entered, release = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        entered.set()
        release.wait(30)
        return Printed("rule 0")

    tools = shadow(ASKS, answer=answer)
    first = start(tools)
    assert entered.wait(30)
    second = start(tools)
    until(lambda: len(list(tools.replies.glob("*.claim"))) == 2 and not any(tools.calls.iterdir()))
    for process in (first, second):
        process.kill()
        process.communicate(timeout=60)
    drained = threading.Thread(target=tools.drain)
    drained.start()
    until(lambda: tools.recorder._spool._taken)
    release.set()
    drained.join(timeout=60)
    log = tools.drain()
    assert [call.answered_by for call in log.invocations] == ["rule 0", "unanswered"]
    assert (log.unmatched, log.faults) == ((2,), ())


def test_what_does_not_ask_cannot_be_unmatched(shadow: Shadow, tmp_path: Path) -> None:
    """Nor can a call that had its answer when it was killed."""
    real = tmp_path / "real" / "git"
    real.parent.mkdir()
    real.write_text("#!/bin/sh\nexec sleep 60\n")
    real.chmod(0o755)
    tools = shadow(ASKS, Tool("curl", 0), ShimPlan("git", passthrough=True), answer=Slow())
    path = {"PATH": f"{tools.bin}:{real.parent}:/usr/bin:/bin"}
    tools.call("curl", "x")
    assert tools.shell("timeout 3 git push; timeout 3 uip login 3600", env=path).returncode == 124
    log = tools.drain()
    assert [call.tool for call in log.invocations] == ["curl", "git", "uip"]
    assert [call.answered_by for call in log.invocations] == ["constant", "passthrough", "rule 0"]
    assert (log.unmatched, log.faults) == ((), ())
