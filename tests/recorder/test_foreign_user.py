"""Shims of another user than the harness: the same evidence, and nothing of the recorder that this user can undo."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from pytest_codereval.recorder.answering import Printed, ReadStdin, Request, RunReal, ShimPlan
from pytest_codereval.recorder.recorder import Recorder

from .shadowing import NonRoot, Shadow, Shadowed, Tool, until

ASKS = ShimPlan("asks", asks=True)
HEARS = ShimPlan("hears", asks=True, read_stdin=True)
PASSES = ShimPlan("tr", passthrough=True)


@pytest.fixture
def foreign(shadow: Shadow, non_root: NonRoot) -> Callable[..., Shadowed]:
    """Make tools whose callers are another user; the folder above is one that this user may enter."""
    if os.geteuid() != 0:
        pytest.skip("only root can run programs as another user")
    non_root.home.chmod(0o755)

    def make(*tools: Any, **options: Any) -> Shadowed:
        return shadow(*tools, root=non_root.home / "trial", foreign_user=True, **options)

    return make


def call(tools: Shadowed, script: str, non_root: NonRoot, **options: Any) -> subprocess.CompletedProcess[bytes]:
    done: subprocess.CompletedProcess[bytes] = tools.shell(script, cwd="/", **non_root.options, **options)
    return done


def answer(request: Request) -> Printed | ReadStdin | RunReal:
    if request.tool == "hears":
        return Printed("rule 1", (request.stdin or b"").upper(), b"e", 3)
    if request.argv == ("stdin",):
        return ReadStdin() if request.stdin is None else Printed("rule 1", request.stdin)
    if request.tool == "cut":
        if request.run is None:
            return RunReal(capture=True)
        return Printed("passthrough", request.run.stdout, b"", request.run.exit_status)
    return Printed("rule 2", b"told\n")


def test_every_kind_of_call_works(foreign: Callable[..., Shadowed], non_root: NonRoot, interpreter: str) -> None:
    tools = foreign(
        Tool("uip", 4, "out"), ASKS, HEARS, PASSES, ShimPlan("cut", asks=True), answer=answer, interpreter=interpreter
    )
    script = """
        uip a; echo $?; asks b; echo x | hears; echo $?; echo y | asks stdin; echo z | tr z w
        echo a,b | cut -d, -f2; umask
    """
    done = call(tools, f"umask 022; {script}", non_root)
    assert (done.stdout, done.stderr) == (b"out4\ntold\nX\n3\ny\nw\nb\n0022\n", b"e")
    log = tools.drain()
    assert log.faults == ()
    assert [invocation.tool for invocation in log.invocations] == ["uip", "asks", "hears", "asks", "tr", "cut"]
    assert [invocation.exit_status for invocation in log.invocations] == [4, 0, 3, 0, 0, 0]


def test_parallel_calls_are_all_there(foreign: Callable[..., Shadowed], non_root: NonRoot) -> None:
    tools = foreign(Tool("uip"), ASKS, answer=answer)
    script = "for i in 1 2 3 4 5 6 7 8; do (for j in 1 2 3 4 5; do uip $i; asks $i >/dev/null; done) & done; wait"
    assert call(tools, script, non_root).returncode == 0
    log = tools.drain()
    assert (len(log.invocations), log.faults) == (80, ())


UNDOINGS = {
    "remove": 'rm -rf "$S" "$B" 2>/dev/null; true',
    "rename": 'mv "$S" "$S.x"; mv "$S/calls" "$S/x"; mv "$S/index" "$S/replies/x"; mv "$B/uip" "$B/x"',
    "replace": 'rm -f "$S/index"; mkfifo "$S/index"; echo >"$B/uip"; ln -sf /dev/null "$S/ok"; rm "$S/replies/0"',
    "modes": 'chmod -R 777 "$S" "$B"; chown -R $(id -u) "$S"; touch -d 2001-01-01 "$S" "$S/ok" "$B/uip"',
    "plant": 'touch "$S/new" "$B/new" "$S/../new"',
    "list": 'ls "$S/calls" "$S/replies"; cat "$S/index" </dev/null',
}


@pytest.mark.parametrize("undoing", UNDOINGS)
def test_nothing_of_the_recorder_can_be_undone(
    foreign: Callable[..., Shadowed], non_root: NonRoot, undoing: str
) -> None:
    tools = foreign(Tool("uip", 0), ASKS, answer=answer)
    script = f"S={tools.spool} B={tools.bin}; uip before; {UNDOINGS[undoing]}; uip after; asks"
    done = call(tools, script, non_root)
    assert done.stdout.endswith(b"told\n")
    assert b"denied" in done.stderr or b"not permitted" in done.stderr or undoing == "remove"
    log = tools.drain()
    assert [invocation.argv for invocation in log.invocations] == [("before",), ("after",), ()]
    assert log.faults == ()


TRACES = {
    "emptied": ('printf "" >"$S/ok"', "could not record a call"),
    "scribbled": ('printf x >>"$S/ok"', "mark of the recorder"),
    "garbage": ('echo garbage >>"$S/index"', "lines that no shim wrote"),
    "forged": ('echo 77.0 >>"$S/index"', "its record was not there"),
    "stray": ('echo x >"$S/calls/stray"', "something that no shim wrote"),
    "torn": ('printf 2 >"$S/calls/99.0"', "not recorded to its end"),
    "ended twice": ('uip; echo "$$.0=7" >>"$S/index"', "lines that no shim wrote"),
}


@pytest.mark.parametrize("trace", TRACES)
def test_what_can_be_done_leaves_traces(foreign: Callable[..., Shadowed], non_root: NonRoot, trace: str) -> None:
    attack, told = TRACES[trace]
    tools = foreign(Tool("uip"))
    call(tools, f"S={tools.spool}; {attack}", non_root)
    assert any(told in fault for fault in tools.drain().faults)


def test_answers_cannot_be_found_by_others(foreign: Callable[..., Shadowed], non_root: NonRoot) -> None:
    """Their names cannot be guessed, and nobody but the harness lists them; the caller's own files are its own."""
    tools = foreign(Tool("uip"), ASKS, answer=lambda request: Printed("rule 1", b"answer", delay=30))
    waiting = subprocess.Popen([tools.bin / "asks"], stdout=subprocess.DEVNULL, **non_root.options)
    try:
        until(lambda: len(tools.answerer.requests) == 1 if tools.answerer else False)
        looked = call(
            tools, f'cd {tools.replies} && cat ./* ./.* | head -c 9; find . -type f; find "$PWD/../calls"', non_root
        )
        assert b"answer" not in looked.stdout
        assert looked.stdout.count(b"\n") <= 3
    finally:
        waiting.kill()
        waiting.wait()


def test_the_modes_of_both_kinds_of_users(foreign: Callable[..., Shadowed], shadow: Shadow, non_root: NonRoot) -> None:
    others, own = foreign(ASKS, answer=answer), shadow(ASKS, answer=answer)

    def modes(tools: Shadowed) -> dict[str, str]:
        names = ("", "calls", "replies", "index", "ok", "replies/0", "replies/room")
        return {name: oct(stat.S_IMODE((tools.spool / name).stat().st_mode)) for name in names}

    assert set(modes(own).values()) == {"0o700", "0o200", "0o600"}
    assert list(modes(others).values()) == ["0o755", "0o1733", "0o1733", "0o222", "0o622", "0o644", "0o644"]


def test_an_unusual_umask_of_the_harness_changes_nothing(foreign: Callable[..., Shadowed], non_root: NonRoot) -> None:
    (non_root.home / "trial").mkdir(mode=0o755)
    before = os.umask(0o077)
    try:
        tools = foreign(Tool("uip", 0, "x"), ASKS, answer=answer)
    finally:
        os.umask(before)
    assert call(tools, "uip; asks", non_root).stdout == b"xtold\n"
    assert tools.drain().faults == ()


def test_a_second_recorder_in_the_same_place_begins_anew(foreign: Callable[..., Shadowed], non_root: NonRoot) -> None:
    first = foreign(Tool("uip"))
    call(first, f"touch {first.calls}/left", non_root)
    first.recorder.close()
    second = Recorder([Tool("uip")], first.bin, first.spool, foreign_user=True)
    second.install()
    try:
        call(first, "uip", non_root)
        assert len(second.drain().invocations) == 1
        assert second.drain().faults == ()
    finally:
        second.close()
        shutil.rmtree(first.spool)
