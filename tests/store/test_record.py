"""What a record holds of the recorded calls."""

from __future__ import annotations

import dataclasses

from pytest_codereval.recorder.invocation import Invocation, InvocationLog
from pytest_codereval.recorder.options import option_table
from pytest_codereval.store.record import describe_invocations

LOG = InvocationLog(
    invocations=(Invocation(1, "uip", ("login",), "sub", 1.5),),
    recorded_tools=frozenset({"uip"}),
    builtin_tools=frozenset({"printf"}),
    faults=("tampered: a",),
    options={"uip": option_table(((("output", "o"), 1),))},
    unmatched=(1,),
    shim_dir="/trial/bin",
)


def test_all_that_a_log_tells_is_in_the_record() -> None:
    described = describe_invocations(LOG)
    assert described["shim_dir"] == "/trial/bin"
    assert described["options"] == {"uip": [{"names": ("output", "o"), "arity": 1}]}
    assert described["calls"] == [dataclasses.asdict(LOG.invocations[0])]
    names = {"invocations": "calls"}
    assert set(described) == {names.get(field.name, field.name) for field in dataclasses.fields(LOG)}
