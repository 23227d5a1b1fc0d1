"""Shims where an agent is isolated: reached by name and by absolute path, as another user, in a system of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_codereval.recorder.answering import Answer, Printed, ReadStdin, Request, ShimPlan
from pytest_codereval.recorder.recorder import Recorder
from pytest_codereval.sandbox.protocol import Phase, Sandbox
from tests.sandbox import isolated

from .shadowing import Answering, Tool

PLANS = [
    Tool("uip", 4, "constant\n"),
    Tool("tr", 0, "shim\n"),
    ShimPlan("asks", asks=True),
    ShimPlan("hears", asks=True, read_stdin=True),
    ShimPlan("wc", passthrough=True),
]


def answer(request: Request) -> Answer:
    if request.tool == "hears":
        return Printed("rule 0", (request.stdin or b"").upper())
    if request.argv == ("stdin",) and request.stdin is None:
        return ReadStdin()
    return Printed("rule 1", b"told " + (request.stdin or b""))


class Recorded:
    """A recorder in a sandbox, proven reachable."""

    def __init__(self, sandbox: Sandbox, kind: str) -> None:
        self.sandbox = sandbox
        self.kind = kind
        self.recorder = Recorder(
            PLANS,
            sandbox.bin_dir,
            sandbox.root / "spool",
            answerer=Answering(answer),
            workspace=sandbox.workspace,
            interpreter=sandbox.shim_shell,
            foreign_system=sandbox.shim_shell is not None,
            foreign_user=sandbox.foreign_user,
        )
        self.recorder.install()
        self.recorder.cover(sandbox)
        self.recorder.prove_reachable(sandbox)

    def sh(self, script: str) -> str:
        result = self.sandbox.run(["/bin/sh", "-c", script], phase=Phase.AGENT, timeout=60)
        return result.stdout_text + result.stderr_text


@pytest.fixture(params=isolated.ISOLATING)
def recorded(request: pytest.FixtureRequest) -> Iterator[Recorded]:
    sandbox = isolated.create(request.param)
    made = None
    try:
        made = Recorded(sandbox, request.param)
        yield made
    finally:
        if made is not None:
            made.recorder.close()
        sandbox.close()


def test_tools_are_recorded_where_the_agent_is_isolated(recorded: Recorded) -> None:
    script = """
        mkdir -p sub; cd sub; uip a 'b c'; echo $?; asks x; echo in | asks stdin; echo low | hears
        printf 'one\\ntwo\\n' | wc -l; env -i "$(command -v uip)" clean
        for i in 1 2 3 4 5 6 7 8; do uip $i >/dev/null & done; wait
    """
    told = recorded.sh(script)
    assert told.split() == ["constant", "4", "told", "told", "in", "LOW", "2", "constant"]
    recorded.sandbox.reap()
    log = recorded.recorder.drain()
    assert log.faults == ()
    calls = [(call.tool, *call.argv) for call in log.invocations]
    assert calls[:6] == [
        ("uip", "a", "b c"),
        ("asks", "x"),
        ("asks", "stdin"),
        ("hears",),
        ("wc", "-l"),
        ("uip", "clean"),
    ]
    assert {call[1] for call in calls[6:]} >= set("12345678")
    assert {call.cwd for call in log.invocations} == {"sub"}
    assert log.uncovered_tools == ({"wc", "tr"} if recorded.kind == "busybox" else {"wc"})


def test_a_call_by_an_absolute_path_is_recorded_too(recorded: Recorded) -> None:
    if recorded.kind == "busybox":
        pytest.skip("its programs are one file, which no shim can cover; the log tells of such tools")
    programs = recorded.sh("for p in /bin/tr /usr/bin/tr; do test -e $p && echo $p; done").split()
    assert programs
    for program in programs:
        assert recorded.sh(f"echo a | {program} a b") == "shim\n", program
    recorded.sandbox.reap()
    log = recorded.recorder.drain()
    assert [call.tool for call in log.invocations] == ["tr"] * len(programs)
    assert log.faults == ()


def test_the_recorder_cannot_be_undone_by_the_agent(recorded: Recorded) -> None:
    folder, spool = recorded.sandbox.bin_dir, recorded.sandbox.root / "spool"
    attack = f"""
        rm -rf {folder}/* {spool}/* ; mv {spool} {spool}.x; rm -f {spool}/index; mkfifo {spool}/index
        echo '#!/bin/sh' >{folder}/uip; chmod 777 {folder}/uip {spool} {spool}/calls; ls {spool}/replies
    """
    recorded.sh(attack)
    assert recorded.sh("uip after") == "constant\n"
    recorded.sandbox.reap()
    log = recorded.recorder.drain()
    if recorded.sandbox.foreign_user:
        assert log.faults == ()
        assert [call.argv for call in log.invocations] == [("after",)]
    else:
        assert any(fault.startswith("tampered") for fault in log.faults)
