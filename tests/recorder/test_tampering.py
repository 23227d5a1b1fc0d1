"""What an agent may do to shims, index and records: it is noticed, told once, and never becomes a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.recorder.spool.spool import cause_of, describe

from .shadowing import Shadow, box, record, until


def tampering(script: str, words: str) -> Any:
    return pytest.param(script, words, id=script[:60])


ATTACKS = [
    tampering('rm "$BIN/uip"', "shim of uip was changed, replaced or removed"),
    tampering('chmod -x "$BIN/uip"', "shim of uip was changed"),
    tampering('printf "#!/bin/sh\\n" >"$BIN/uip"', "shim of uip was changed"),
    tampering('cp "$BIN/uip" "$BIN/new"; mv "$BIN/new" "$BIN/uip"', "shim of uip was changed"),
    tampering('printf "##" 1<>"$BIN/uip"', "shim of uip was changed"),
    tampering('rm -r "$BIN"', "shim of uip was changed"),
    tampering('rm "$SPOOL/index"', "index of the recorder is gone"),
    tampering('rm "$SPOOL/index"; uip forbidden', "index of the recorder was moved, replaced"),
    tampering('rm "$SPOOL/index"; mkfifo "$SPOOL/index"', "index of the recorder was moved, replaced"),
    tampering('chmod 666 "$SPOOL/index"', "index of the recorder was moved, replaced or changed"),
    tampering('rm "$SPOOL/ok"', "mark of the recorder is gone"),
    tampering('echo ok >"$SPOOL/ok"', "mark of the recorder was moved, replaced or changed"),
    tampering(': >"$SPOOL/ok"', "could not record a call"),
    tampering('rm -r "$SPOOL"', "spool is gone"),
    tampering('rm -r "$SPOOL"; uip forbidden', "could not be recorded|spool is gone"),
    tampering('mv "$SPOOL" "$SPOOL.old"; cp -R "$SPOOL.old" "$SPOOL"', "spool was moved, replaced"),
    tampering(
        'mv "$SPOOL" "$SPOOL.old"; mkdir "$SPOOL"; echo ok >"$SPOOL/ok"; uip forbidden',
        "spool was moved, replaced or changed",
    ),
    tampering('echo nonsense >>"$SPOOL/index"', "lines that no shim wrote"),
    tampering('printf "12.0" >>"$SPOOL/index"', "ends in the middle of a line"),
    tampering('head -c 5000000 /dev/urandom >>"$SPOOL/index"', "flooded"),
    tampering('yes | head -c 1000000 >>"$SPOOL/index"', "flooded"),
    tampering('echo 4242.0 >>"$SPOOL/index"', "its record was not there"),
    tampering('printf "1" >"$SPOOL/calls/4242.0"; echo 4242.0 >>"$SPOOL/index"', "not complete"),
    tampering('printf "1" >"$SPOOL/calls/4242.0"', "not recorded to its end"),
    tampering(': >"$SPOOL/calls/4242.0"', "not recorded to its end"),
    tampering('mkdir "$SPOOL/calls/4242.0"; echo 4242.0 >>"$SPOOL/index"', "not complete"),
    tampering('mkfifo "$SPOOL/calls/4242.0"; echo 4242.0 >>"$SPOOL/index"', "not complete"),
    tampering('ln -s /etc/passwd "$SPOOL/calls/4242.0"; echo 4242.0 >>"$SPOOL/index"', "could not be read"),
    tampering('truncate -s 1T "$SPOOL/calls/4242.0"; echo 4242.0 >>"$SPOOL/index"', "not complete"),
    tampering('echo x >"$SPOOL/calls/notes"', "something that no shim wrote"),
    tampering('mkdir "$SPOOL/calls/notes"', "something that no shim wrote"),
]

FAKE = "printf '#!/bin/sh\\nexit 0\\n'"
RESTORED = [
    tampering(f'cp "$BIN/uip" k; {FAKE} >"$BIN/uip"; uip bad; cat k >"$BIN/uip"', "shim of uip was changed"),
    tampering(f'cp -p "$BIN/uip" k; {FAKE} >"$BIN/uip"; uip bad; cp -p k "$BIN/uip"', "shim of uip was changed"),
    tampering('mv "$BIN/uip" k; PATH=/usr/bin:/bin; uip bad; mv k "$BIN/uip"', "shim of uip was changed"),
    tampering('ln "$BIN/uip" k; rm "$BIN/uip"; uip bad; ln k "$BIN/uip"; rm k', "shim of uip was changed"),
    tampering('chmod 0 "$BIN/uip"; chmod 755 "$BIN/uip"', "shim of uip was changed"),
    tampering('printf x >"$BIN/other"; rm "$BIN/other"', "directory of the shims"),
    tampering('mv "$BIN" k; uip bad; mv k "$BIN"', "directory of the shims"),
    tampering('mv "$BIN" k; mkdir "$BIN"; uip bad; rmdir "$BIN"; mv k "$BIN"', "directory of the shims"),
    tampering('chmod 0 "$BIN"; chmod 755 "$BIN"', "directory of the shims"),
    tampering('mv "$SPOOL" k; uip bad; mv k "$SPOOL"', "spool was moved, replaced or changed"),
    tampering('mv "$SPOOL" k; cp -R k "$SPOOL"; rm -r "$SPOOL"; mv k "$SPOOL"', "spool was moved"),
    tampering('mv "$SPOOL/calls" k; mkdir "$SPOOL/calls"; uip bad; rm -r "$SPOOL/calls"; mv k "$SPOOL/calls"', "spool"),
    tampering('mv "$SPOOL/index" k; : >"$SPOOL/index"; uip bad; mv k "$SPOOL/index"', "spool was moved"),
    tampering('mv "$SPOOL/ok" k; mv k "$SPOOL/ok"', "mark of the recorder"),
    tampering('chmod 0 "$SPOOL"; uip bad; chmod 700 "$SPOOL"', "spool was moved, replaced or changed"),
]


@pytest.mark.parametrize(("script", "words"), RESTORED)
def test_what_was_put_back_is_noticed(shadow: Shadow, tmp_path: Path, script: str, words: str) -> None:
    tools = shadow("uip")
    places = {"BIN": str(tools.bin), "SPOOL": str(tools.spool)}
    tools.call("/bin/sh", "-c", script, env=places, cwd=tmp_path)
    faults = tools.drain().faults
    assert any(words in fault for fault in faults), faults
    assert cause_of(faults) is Cause.TAMPERED


def test_reading_and_calling_is_no_tampering(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow("uip", "curl")
    tools.recorder.prove_reachable(box(tools, tmp_path))
    script = """
        cat "$BIN/uip" >/dev/null; cp -r "$BIN" copy; ls -laR "$BIN" "$SPOOL" >/dev/null; sh -n "$BIN/uip"
        tar -cf copy.tar "$BIN" 2>/dev/null; find "$BIN/.." -name "*.py"; mkdir "$BIN/../beside"; touch "$BIN/../x"
        uip good; curl good & wait; cd "$SPOOL"; uip inside; (umask 777; uip masked)
    """
    tools.call("/bin/sh", "-c", script, env={"BIN": str(tools.bin), "SPOOL": str(tools.spool)}, cwd=tmp_path)
    assert sorted(tools.argvs()) == [("good",), ("good",), ("inside",), ("masked",)]


def test_what_happened_before_the_agent_is_not_the_agents_fault(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow("uip")
    places = {"BIN": str(tools.bin), "SPOOL": str(tools.spool)}
    script = """
        chmod -R u+rwX "$BIN"; chmod 700 "$SPOOL"; chmod 600 "$SPOOL/ok"; touch "$BIN/new" "$SPOOL/new"
        uip pre_run; cp "$BIN/uip" k; cat k >"$BIN/uip"
    """
    tools.call("/bin/sh", "-c", script, env=places, cwd=tmp_path)
    tools.recorder.prove_reachable(box(tools, tmp_path))
    tools.call("uip", "agent")
    assert tools.argvs() == [("agent",)]


@pytest.mark.parametrize("script", ['printf "#!/bin/sh\\n" >"$BIN/uip"', 'rm "$BIN/uip"', 'chmod 700 "$BIN/uip"'])
def test_a_shim_that_was_changed_before_the_agent_starts(shadow: Shadow, tmp_path: Path, script: str) -> None:
    tools = shadow("uip")
    tools.call("/bin/sh", "-c", script, env={"BIN": str(tools.bin)})
    with pytest.raises(TrialError, match="the shim of uip was changed, replaced or removed before the agent") as caught:
        tools.recorder.prove_reachable(box(tools, tmp_path))
    assert caught.value.cause is Cause.SHIM_UNREACHABLE


@pytest.mark.parametrize(("script", "words"), ATTACKS)
def test_tampering_is_noticed(shadow: Shadow, script: str, words: str) -> None:
    tools = shadow("uip")
    places = {"BIN": str(tools.bin), "SPOOL": str(tools.spool)}
    tools.call("/bin/sh", "-c", f"uip before; {script}", env=places, timeout=60)
    log = tools.drain()
    tools.recorder.close()
    assert any(part in fault for part in words.split("|") for fault in log.faults), log.faults
    assert cause_of(log.faults) in (Cause.TAMPERED, Cause.EVIDENCE_LOST)
    assert [call.argv for call in log.invocations][:1] in ([("before",)], [])


def test_tampering_weighs_more_than_loss() -> None:
    assert cause_of(("evidence lost: a", "tampered: b")) is Cause.TAMPERED
    assert cause_of(("evidence lost: a",)) is Cause.EVIDENCE_LOST


def test_one_deed_is_told_once(shadow: Shadow) -> None:
    for script, faults in (
        ('rm -r "$SPOOL"', ("tampered: the recorder's spool is gone",)),
        ('rm "$SPOOL/index"', ("tampered: the index of the recorder is gone",)),
        ('rm "$BIN/uip"', ("tampered: the shim of uip was changed, replaced or removed",)),
        (
            "ulimit -f 0; uip x",
            (
                "evidence lost: a shim could not record a call of uip",
                "evidence lost: a call was not recorded to its end",
            ),
        ),
    ):
        tools = shadow("uip")
        tools.shell(f"BIN={tools.bin} SPOOL={tools.spool}; {script}")
        assert tools.drain().faults == faults


def test_the_headline_is_not_repeated() -> None:
    assert describe(("tampered: a", "tampered: b", "evidence lost: c")) == "a; b; evidence lost: c"
    assert describe(("evidence lost: a", "evidence lost: b")) == "a; b"


def test_the_next_trial_is_unharmed(shadow: Shadow) -> None:
    first, second = shadow("uip"), shadow("uip")
    first.shell(f'rm -r "{first.spool}" "{first.bin}"')
    second.call("uip", "x")
    assert first.drain().faults
    assert second.argvs() == [("x",)]


def test_deleting_a_taken_record_changes_nothing(shadow: Shadow) -> None:
    tools = shadow("uip")
    tools.call("uip", "delete", "everything")
    until(lambda: not list(tools.calls.glob("*.0")))
    tools.shell(f'rm -f "{tools.calls}"/*.0')
    assert tools.argvs() == [("delete", "everything")]


def test_forged_calls_of_other_tools_are_noticed(shadow: Shadow) -> None:
    tools = shadow("uip")
    (tools.calls / "4242.0").write_bytes(record("x", tool="curl"))
    assert tools.drain().invocations == ()
    assert "tools that are not recorded" in "".join(tools.drain().faults)


@pytest.mark.parametrize(
    "data",
    [record("a", count=2), record("a", end=False), record("a")[:-1], b"1" + record("a")[1:], b"", b"\0" * 9, b"END\0"],
)
def test_a_record_that_is_not_whole_is_no_call(shadow: Shadow, data: bytes) -> None:
    tools = shadow("uip")
    (tools.calls / "4242.0").write_bytes(data)
    assert tools.drain().invocations == ()
    assert tools.drain().faults == ("evidence lost: a call was not recorded to its end",)


def test_an_argument_end_does_not_end_a_record(shadow: Shadow) -> None:
    tools = shadow("uip")
    tools.call("uip", "END", "", "END")
    assert tools.argvs() == [("END", "", "END")]
