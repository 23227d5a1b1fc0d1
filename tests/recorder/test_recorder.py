"""The recorder as the harness uses it: what is counted, what is noticed, what is never lost without a word."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
import time
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.recorder.recorder import Recorder
from pytest_codereval.recorder.shims.names import collisions, generated_names, written_names
from pytest_codereval.recorder.spool import spool as spool_module
from pytest_codereval.recorder.spool.spool import Spool
from pytest_codereval.sandbox.protocol import Phase

from .shadowing import SYSTEM_PATH, NonRoot, Shadow, Tool, box, record, until

# -- what is counted


def test_calls_come_in_order_with_all_that_is_known(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow(Tool("uip", 7), Tool("curl", 0))
    before = time.time()
    for tool, argument in (("uip", "1"), ("curl", "2"), ("uip", "3")):
        tools.call(tool, argument, cwd=tmp_path)
    log = tools.drain()
    assert log.faults == ()
    assert log.recorded_tools == {"uip", "curl"}
    assert [(c.sequence, c.tool, c.argv, c.exit_status, c.cwd) for c in log.invocations] == [
        (1, "uip", ("1",), 7, str(tmp_path)),
        (2, "curl", ("2",), 0, str(tmp_path)),
        (3, "uip", ("3",), 7, str(tmp_path)),
    ]
    assert all(before - 1 <= call.time <= time.time() for call in log.invocations)


def test_each_record_is_taken_away_at_once(shadow: Shadow) -> None:
    tools = shadow("uip")
    tools.call("uip")
    until(lambda: not list(tools.calls.iterdir()))
    assert tools.argvs() == [()]


def test_the_tools_own_files_are_what_the_names_say(shadow: Shadow) -> None:
    tools = shadow("uip", "curl")
    written = {path.name for path in tools.bin.iterdir()}
    assert written == {*written_names("uip"), *written_names("curl")}
    assert written <= generated_names("uip") | generated_names("curl")
    assert set(written_names("uip", windows=True)) == {"uip", "uip.cmd"}
    for windows in (False, True):
        assert set(written_names("uip", windows=windows)) <= generated_names("uip")
    assert all(path.stat().st_mode & 0o777 == 0o755 for path in tools.bin.iterdir())


def test_collisions_ignore_case_and_know_every_twin() -> None:
    present = ["UIP", "uip.cmd", "Uip.EXE", "uip.bat", "uip.sh", "uipx", "curl"]
    assert collisions("uip", present) == ("UIP", "Uip.EXE", "uip.bat", "uip.cmd")


def test_discarded_calls_are_never_counted(shadow: Shadow) -> None:
    tools = shadow("uip")
    tools.call("uip", "pre_run")
    tools.recorder.discard_calls_so_far()
    tools.call("uip", "agent")
    assert tools.argvs() == [("agent",)]
    assert [call.sequence for call in tools.drain().invocations] == [1]


def test_calls_after_the_drain_are_answered_and_not_counted(shadow: Shadow) -> None:
    tools = shadow(Tool("uip", 9, stdout="still here\n"))
    tools.call("uip", "agent")
    first = tools.drain()
    for number in range(300):
        if number % 100 == 0:
            assert tools.call("uip", "grader").stdout == b"still here\n"
    with (tools.spool / "index").open("ab") as index:
        index.write(b"x\n" * 200_000)
    assert tools.drain() is first
    assert [call.argv for call in first.invocations] == [("agent",)]
    assert first.faults == ()


def test_what_lay_there_before_is_never_counted(tmp_path: Path, shadow: Shadow) -> None:
    root = tmp_path / "used"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep").write_text("k")
    for name in ("bin", "spool"):
        (root / name / "folder").mkdir(parents=True)
        (root / name / "link").symlink_to(elsewhere)
    (root / "spool" / "123.0").write_bytes(record("stale"))
    (root / "spool" / "index").write_bytes(b"123.0\n")
    (root / "spool" / "ok").write_bytes(b"")
    (root / "bin" / "old-tool").write_text("#!/bin/sh\n")
    tools = shadow("uip", root=root)
    assert [path.name for path in tools.bin.iterdir()] == ["uip"]
    tools.call("uip", "fresh")
    assert tools.argvs() == [("fresh",)]
    tools.recorder.close()
    again = shadow("uip", root=root)
    assert again.argvs() == []
    assert (elsewhere / "keep").read_text() == "k"


def test_a_link_in_place_of_a_directory_is_not_followed(tmp_path: Path, shadow: Shadow) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "keep").write_text("k")
    (tmp_path / "root").mkdir()
    for name in ("bin", "spool"):
        (tmp_path / "root" / name).symlink_to(elsewhere)
    tools = shadow("uip", root=tmp_path / "root")
    tools.call("uip")
    assert tools.argvs() == [()]
    assert [path.name for path in elsewhere.iterdir()] == ["keep"]


def test_a_root_behind_a_link(tmp_path: Path, shadow: Shadow) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    tools = shadow("uip", root=tmp_path / "link" / "trial")
    tools.call("uip", "x")
    assert tools.argvs() == [("x",)]


def test_a_record_whose_shim_was_killed_before_its_line_is_counted(shadow: Shadow) -> None:
    tools = shadow("uip")
    for number, seconds in (("1", 200), ("2", 100)):
        path = tools.calls / f"7777{number}.0"
        path.write_bytes(record(number))
        os.utime(path, (seconds, seconds))
    tools.call("uip", "whole")
    assert tools.argvs() == [("2",), ("1",), ("whole",)]


def test_a_record_is_never_overwritten(shadow: Shadow, interpreter: str) -> None:
    """A process number comes again, in time or in another container."""
    tools = shadow("uip", interpreter=interpreter)
    planted = tools.spool.parent / "planted"
    planted.write_bytes(record("earlier"))
    tools.shell(f'cp {planted} "{tools.calls}/$$.0"; exec uip later')
    assert sorted(tools.argvs()) == [("earlier",), ("later",)]


def test_a_spool_is_taken_once(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.open()
    for number in range(2):
        (tmp_path / "spool" / "calls" / f"{number}.0").write_bytes(record(str(number)))
        assert [found.argv for found in spool.take()] == [("0",)]
    spool.close()


# -- who may be recorded


@pytest.mark.parametrize(
    "name",
    [
        *(
            "../evil",
            "a/b",
            "a\\b",
            ".",
            "..",
            "",
            " uip",
            "a b",
            "D:evil",
            "a\0b",
            "a\nb",
            "-rf",
            "~",
            "...",
            "a;b",
            "$x",
        ),
        *(
            "a'b",
            'a"""b',
            "calls.jsonl",
            "Calls.JSONL",
            "index",
            "OK",
            "uip.cmd",
            "uip.BAT",
            "uip.exe",
            "sh",
            "SH",
            "é",
        ),
    ],
)
def test_names_that_cannot_be_recorded(tmp_path: Path, name: str) -> None:
    with pytest.raises(TrialError) as caught:
        Recorder([Tool(name)], tmp_path / "bin", tmp_path / "spool")
    assert caught.value.cause is Cause.CONFIGURATION
    assert not (tmp_path / "bin").exists()


def test_a_name_that_is_there_twice(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="twice"):
        Recorder([Tool("uip"), Tool("UIP")], tmp_path / "bin", tmp_path / "spool")


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    recorder = Recorder([Tool("uip")], tmp_path / "file" / "bin", tmp_path / "spool")
    with pytest.raises(TrialError) as caught:
        recorder.install()
    assert caught.value.cause is Cause.SANDBOX
    recorder.close()


# -- when a call cannot be recorded


def test_a_spool_that_cannot_be_written(shadow: Shadow, non_root: NonRoot, interpreter: str) -> None:
    tools = shadow(Tool("uip", 6, stdout="out\n"), interpreter=interpreter, root=non_root.home / "trial")
    non_root.own()
    tools.calls.chmod(0o500)
    result = tools.call("uip", "x", cwd="/", **non_root.options)
    tools.calls.chmod(0o700)
    assert (result.returncode, result.stdout) == (6, b"out\n")
    assert result.stderr == b"uip: this call could not be recorded\n"
    log = tools.drain()
    assert log.invocations == ()
    assert any("could not record a call" in fault for fault in log.faults)


def test_a_full_disk(shadow: Shadow, tmp_path: Path, interpreter: str) -> None:
    root = tmp_path / "small"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", root]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("a small file system cannot be mounted here")
    try:
        tools = shadow(Tool("uip", 6, stdout="out\n"), interpreter=interpreter, root=root)
        tools.call("uip", "fits")
        tools.shell(f"cat /dev/zero >{root}/filler")
        result = tools.call("uip", "x" * 5000)
        assert (result.returncode, result.stdout) == (6, b"out\n")
        assert b"could not be recorded" in result.stderr
        log = tools.drain()
        assert [call.argv for call in log.invocations] == [("fits",)]
        assert any("could not record a call" in fault for fault in log.faults)
        tools.recorder.close()
    finally:
        subprocess.run(["umount", "-l", root], check=True)


def test_memory_has_a_bound(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "MEMORY_LIMIT", 1 << 20)
    tools = shadow("uip")
    for _ in range(12):
        tools.call("uip", "x" * 100_000)
    log = tools.drain()
    assert len(log.invocations) == 10
    assert "more than 1 MiB of calls" in log.faults[0]


def test_a_flood_of_files_has_a_bound(shadow: Shadow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "_MAX_LISTED", 50)
    tools = shadow("uip")
    for number in range(200):
        (tools.calls / f"{number}.0").write_bytes(record(str(number)))
    log = tools.drain()
    assert len(log.invocations) <= 51
    assert any("flooded with files" in fault for fault in log.faults)


def test_a_shim_never_waits_for_a_slow_harness(shadow: Shadow) -> None:
    """Thousands of lines fit into the FIFO while the harness does something else; a later shim waits, none is lost."""
    tools = shadow("uip")
    lock = tools.recorder._spool._lock
    with lock:
        for number in range(20):
            assert tools.call("uip", str(number)).returncode == 1
    assert tools.argvs() == [(str(number),) for number in range(20)]


def test_no_thread_and_no_descriptor_is_left(shadow: Shadow) -> None:
    descriptors = open_descriptors()
    threads = threading.active_count()
    for _ in range(5):
        tools = shadow("uip")
        tools.call("uip")
        tools.drain()
        tools.recorder.close()
        tools.recorder.close()
    assert threading.active_count() == threads
    assert open_descriptors() == descriptors


def open_descriptors() -> int:
    """How many there are, 0 where that cannot be told."""
    place = Path("/proc/self/fd")
    return len(list(place.iterdir())) if place.exists() else 0


def test_closing_without_a_drain_and_without_an_install(tmp_path: Path, shadow: Shadow) -> None:
    Recorder([Tool("uip")], tmp_path / "bin", tmp_path / "spool").close()
    shadow("uip").recorder.close()


def test_descriptors_are_not_inherited(shadow: Shadow) -> None:
    tools = shadow("uip")
    result = tools.call("/bin/sh", "-c", "ls -l /proc/self/fd", close_fds=False)
    assert str(tools.spool).encode() not in result.stdout


def test_the_index_is_not_readable_for_the_agent(shadow: Shadow) -> None:
    tools = shadow("uip")
    assert stat.S_IMODE((tools.spool / "index").stat().st_mode) == 0o200


def test_a_spool_without_fifo(tmp_path: Path) -> None:
    """As on Windows: the index is a plain file, read when the calls are asked for."""
    spool = Spool(tmp_path / "spool", fifo=False)
    spool.open()
    for number in range(3):
        (tmp_path / "spool" / "calls" / f"9{number}.0").write_bytes(record(str(number)))
        with (tmp_path / "spool" / "index").open("ab") as index:
            index.write(b"9%d.0\n" % number)
    assert [found.argv for found in spool.take()] == [("0",), ("1",), ("2",)]
    assert spool.check() == ()
    spool.close()


# -- the proof that shims are reached


def test_reachable_shims_are_proven_and_the_proof_is_not_counted(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow("uip", "python3.11", "cat")
    sandbox = box(tools, tmp_path)
    tools.call("uip", "pre_run")
    tools.recorder.prove_reachable(sandbox)
    assert sandbox.phases == [Phase.AGENT]
    tools.call("uip", "agent")
    assert tools.argvs() == [("agent",)]


def test_a_login_shell_that_changed_is_proven_again(shadow: Shadow, tmp_path: Path) -> None:
    first, second, third = shadow("uip"), shadow("uip"), shadow("uip")
    for tools in (first, second):
        sandbox = box(tools, tools.bin.parent)
        tools.recorder.prove_reachable(sandbox)
    assert sandbox.phases == [], "the second trial of a kind asks no shell again"
    with pytest.raises(TrialError, match="does not lead to its shim"):
        first.recorder.prove_reachable(box(second, first.bin.parent))
    with pytest.raises(TrialError, match="bash -l"):
        third.recorder.prove_reachable(box(third, third.bin.parent, profile="PATH=/usr/bin:/bin\n"))


def test_what_a_profile_prints_does_not_disturb(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow("uip")
    noisy = f"echo Welcome; printf 'a\\0b\\0'; PATH={tools.bin}:$PATH; echo uip\n"
    tools.recorder.prove_reachable(box(tools, tmp_path, profile=noisy))


def test_login_shells_reach_the_shims(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow(Tool("uip", 0))
    env = box(tools, tmp_path).env
    for command in (["/bin/bash", "-lc"], ["/bin/sh", "-lc"], ["/bin/zsh", "-c"]):
        if Path(command[0]).exists():
            assert tools.call(*command, "uip login", env=env).returncode == 0
    assert set(tools.argvs()) == {("login",)}


@pytest.mark.parametrize(
    ("path", "profile", "words"),
    [
        ("/usr/bin:/bin", None, "uip does not lead to its shim in sh, but to nothing"),
        (None, "PATH=/usr/bin:/bin\n", "uip does not lead to its shim in bash -l, but to nothing"),
        (None, "uip() { :; }\n", "uip does not lead to its shim in bash -l, but to uip"),
        (None, "exit 0\n", "the probe did not end"),
    ],
)
def test_a_shim_that_is_not_reached(
    shadow: Shadow, tmp_path: Path, path: str | None, profile: str | None, words: str
) -> None:
    tools = shadow("uip")
    with pytest.raises(TrialError, match=words) as caught:
        tools.recorder.prove_reachable(box(tools, tmp_path, path=path, profile=profile))
    assert caught.value.cause is Cause.SHIM_UNREACHABLE


def test_another_program_of_the_same_name_first_on_path(shadow: Shadow, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "uip").write_text("#!/bin/sh\ntouch $0.ran\n")
    (other / "uip").chmod(0o755)
    tools = shadow("uip")
    with pytest.raises(TrialError, match=f"in sh, but to {other}/uip"):
        tools.recorder.prove_reachable(box(tools, tmp_path, path=f"{other}:{tools.bin}:{SYSTEM_PATH}"))
    assert not (other / "uip.ran").exists()


def test_a_builtin_is_recorded_for_all_but_shells_and_said_to_be_one(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow("printf", "uip")
    sandbox = box(tools, tmp_path)
    tools.recorder.prove_reachable(sandbox)
    assert tools.call("/usr/bin/env", "printf", "x", env=sandbox.env).returncode == 1
    log = tools.recorder.drain()
    assert [call.argv for call in log.invocations] == [("x",)]
    assert log.builtin_tools == {"printf"}


def test_a_shim_that_cannot_be_run(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow("uip", interpreter="/nonexistent/sh")
    with pytest.raises(TrialError, match="could not be run") as caught:
        tools.recorder.prove_reachable(box(tools, tmp_path))
    assert caught.value.cause is Cause.SHIM_UNREACHABLE
