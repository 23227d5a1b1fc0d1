"""What the recorder has seen while the agent works, some of whose calls are under way."""

from __future__ import annotations

import threading

from pytest_codereval.recorder.answering import Answer, Printed, Request, ShimPlan

from .shadowing import Shadow, Tool


def test_a_call_under_way_is_seen_and_nobody_waits_for_its_answer(shadow: Shadow) -> None:
    asked, may_answer = threading.Event(), threading.Event()

    def answer(request: Request) -> Answer:
        asked.set()
        assert may_answer.wait(60)
        return Printed("rule 1")

    tools = shadow(ShimPlan("uip", asks=True), Tool("relctl", 3), answer=answer)
    assert tools.recorder.seen().invocations == ()
    tools.call("relctl", "a")
    caller = threading.Thread(target=tools.call, args=("uip", "b"))
    caller.start()
    try:
        assert asked.wait(60)
        log = tools.recorder.seen()
    finally:
        may_answer.set()
        caller.join()
    first, second = log.invocations
    assert (first.tool, first.exit_status, first.ended is not None) == ("relctl", 3, True)
    assert (second.tool, second.argv, second.exit_status, second.ended) == ("uip", ("b",), None, None)
    assert log.faults == ()
    assert [call.ended is not None for call in tools.recorder.seen().invocations] == [True, True]
    assert tools.drain().faults == ()
