"""The driver `bubblewrap`: what is seen in its sandboxes, what is not, and how commands run there."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_codereval.errors import TrialError
from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.drivers import Availability
from pytest_codereval.sandbox.protocol import Phase
from tests.sandbox.bubblewrapping import as_other_user, make, python_for_all, said, sh
from tests.sandbox.processes import REPOSITORY, alive, needs_root, new_tag, wait_until

_HERE = drivers.driver("bubblewrap").availability()

pytestmark = pytest.mark.skipif(not _HERE.usable, reason=f"no bubblewrap: {_HERE.reason}")


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with an answer, a virtual environment and a run directory."""
    folder = tmp_path_factory.mktemp("checkout")
    for path in ("tasks/answer", "runs/record", ".venv/bin/tool"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(f"secret {path}\n")
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def sandbox(secrets: Path) -> Iterator[DirectorySandbox]:
    """One whose agent may be asked things; no test of it ends its processes or begins grading."""
    made = make(withhold=(secrets / "tasks", secrets), hidden=(secrets / "runs",))
    with contextlib.closing(made):
        yield made


def test_only_the_system_and_the_folders_of_the_trial_are_there(sandbox: DirectorySandbox, secrets: Path) -> None:
    places = said(sandbox, "ls -A / /home /root 2>&1").split()
    assert "usr" in places
    assert not {"home", "boot", "sys", "mnt", "srv", ".bashrc", ".ssh"} & {*places}
    for path in (secrets / "tasks/answer", secrets / "runs/record", "/etc/shadow", "/var/run/docker.sock", REPOSITORY):
        assert "No such file" in said(sandbox, f"cat {path}"), path
    assert said(sandbox, f"ls {sandbox.root.parent}").split() == [sandbox.root.name]
    assert "pipes" not in said(sandbox, f"find {sandbox.root}")


def test_nothing_but_the_folders_of_the_trial_can_be_written_to(sandbox: DirectorySandbox) -> None:
    for folder in (
        "/",
        "/usr",
        "/etc",
        "/opt",
        "/root",
        str(sandbox.root),
        str(sandbox.bin_dir),
        str(sandbox.root / "provided"),
    ):
        assert sh(sandbox, f"touch {folder}/x").exit_status != 0, folder
    for folder in (sandbox.workspace, sandbox.home, sandbox.tmp, "/tmp", "/var/tmp", "/dev/shm"):
        assert said(sandbox, f"touch {folder}/x && rm {folder}/x") == ""


def test_there_are_no_privileges_and_none_to_gain(sandbox: DirectorySandbox) -> None:
    owner = sandbox.system.owner
    uid = owner.uid if owner is not None else os.geteuid()
    found = dict(line.split(":\t") for line in said(sandbox, "cat /proc/self/status").splitlines() if ":\t" in line)
    assert {found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert found["NoNewPrivs"] == "1"
    assert found["Uid"].split() == [str(uid)] * 4
    assert all("nosuid" in line for line in said(sandbox, "grep -v ' /proc' /proc/self/mounts").splitlines())


def test_processes_of_the_machine_cannot_be_seen(sandbox: DirectorySandbox) -> None:
    assert str(os.getpid()) not in said(sandbox, "ls /proc").split()
    assert said(sandbox, "tr '\\0' '\\n' </proc/1/cmdline | grep -c cev-").strip() == "0"


def test_open_files_of_the_harness_are_not_inherited(sandbox: DirectorySandbox) -> None:
    listed = said(sandbox, "ls /proc/self/fd").split()
    assert listed == ["0", "1", "2", "3"]


def test_the_environment_is_exact(sandbox: DirectorySandbox) -> None:
    names = {line.split("=")[0] for line in said(sandbox, "exec env").splitlines()}
    assert names - {"PWD", "TZ", "USER", "LOGNAME"} == {"LANG", "HOME", "TMPDIR", "PATH"}


@pytest.mark.parametrize("phase", [Phase.AGENT, Phase.PREPARE])
def test_variables_reach_only_the_command(phase: Phase) -> None:
    """A library that the agent left cannot get into a program that makes the sandbox, as that may be root's."""
    with contextlib.closing(make()) as sandbox:
        (sandbox.workspace / "evil.so").write_bytes(b"no library")
        variables = {
            "LD_PRELOAD": f"{sandbox.workspace}/evil.so",
            "BASH_FUNC_exec%%": "() { echo caught; }",
            "A": "é'\n",
        }
        result = sandbox.run(["sh", "-c", 'printf %s "$A"'], phase=phase, timeout=60, env=variables)
        assert result.stdout == "é'\n".encode()
        assert result.stderr.count(b"evil.so") == 1


def test_private_places_cannot_be_uncovered(secrets: Path) -> None:
    """The run directory lies in the checkout, which preparation sees; a namespace of one's own does not help."""
    with contextlib.closing(make(withhold=(secrets / "tasks", secrets), hidden=(secrets / "runs",))) as sandbox:
        assert said(sandbox, f"cat {secrets}/tasks/answer", Phase.PREPARE) == "secret tasks/answer\n"
        assert said(sandbox, f"ls -A {secrets}/runs", Phase.PREPARE) == ""
        for attempt in (
            f"umount -l {secrets}/runs",
            f"unshare -Urm umount -l {secrets}/runs",
            f"unshare -Urm sh -c 'mount --bind {secrets} /tmp; cat /tmp/runs/record'",
            f"unshare -Urm sh -c 'mount --move {secrets}/runs /tmp'",
            f"unshare -Urmpf sh -c 'umount -l {secrets}; cat {secrets}/runs/record'",
            f"nsenter -t 1 -m cat {secrets}/runs/record",
        ):
            assert "secret" not in said(sandbox, f"{attempt}; cat {secrets}/runs/record", Phase.PREPARE), attempt


@pytest.mark.parametrize("phase", [Phase.AGENT, Phase.PREPARE])
def test_exit_statuses_are_those_of_the_command(phase: Phase) -> None:
    with contextlib.closing(make()) as sandbox:
        (sandbox.workspace / "plain").write_text("echo by the shell\n")
        (sandbox.workspace / "plain").chmod(0o755)
        for argv, status in (
            (["sh", "-c", "exit 7"], 7),
            (["sh", "-c", "kill -9 $$"], 137),
            (["sh", "-c", "kill -TERM $$"], 143),
            (["no-such-program"], 127),
            (["/etc/passwd"], 126),
            (["./plain"], 0),
            (["sh", "-c", "echo 'bwrap: no such thing' >&2; exit 1"], 1),
            (["a\0b"], 126),
        ):
            assert sandbox.run(argv, phase=phase, timeout=60).exit_status == status, argv


def test_a_sandbox_that_cannot_be_made_is_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(make()) as sandbox:
        gone = tmp_path / "gone"
        gone.mkdir()
        sandbox.show(gone)
        sandbox.run(["true"], phase=Phase.PREPARE, timeout=60)
        gone.rmdir()
        with pytest.raises(TrialError, match=r"bubblewrap cannot run a command: bwrap: .*gone"):
            sandbox.run(["true"], phase=Phase.PREPARE, timeout=60)


def test_background_processes_live_until_the_end_and_no_longer() -> None:
    tag = new_tag()
    with contextlib.closing(make()) as sandbox:
        sh(sandbox, f"(setsid sh -c '(env -i sleep {tag} &)' &) >/dev/null 2>&1; touch started")
        wait_until(lambda: f"sleep {tag}" in said(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"))
        assert alive(tag)
        sandbox.reap()
        assert alive(tag) == []


def test_a_deadline_kills_all_but_the_network_stays() -> None:
    tag = new_tag()
    with contextlib.closing(make()) as sandbox:
        sh(sandbox, f"setsid sleep {tag} >/dev/null 2>&1 &")
        before = said(sandbox, "readlink /proc/self/ns/net")
        assert sh(sandbox, f"trap '' TERM; sleep {tag}", timeout=0.4).timed_out
        assert alive(tag) == []
        assert said(sandbox, "readlink /proc/self/ns/net") == before


def test_leaving_a_stream_kills_what_runs() -> None:
    tag = new_tag()
    with contextlib.closing(make()) as sandbox:
        text = f"echo here; setsid sleep {tag} & sleep {tag}"
        pieces = sandbox.stream(["sh", "-c", text], phase=Phase.AGENT, timeout=60, private_output=True)
        assert next(pieces) == b"here\n"
        wait_until(lambda: alive(tag))
        pieces.close()
        assert alive(tag) == []
        assert said(sandbox, "echo on") == "on\n"


def test_an_agent_that_kills_everything_can_go_on() -> None:
    with contextlib.closing(make()) as sandbox:
        assert sh(sandbox, "kill -9 -1; kill -9 1; true").exit_status == 0
        assert said(sandbox, "echo on") == "on\n"


def test_processes_are_bounded() -> None:
    with contextlib.closing(make(max_pids=40)) as sandbox:
        bomb = "i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i+1)); done"
        result = sh(sandbox, bomb)
        assert result.exit_status != 0
        assert b"fork" in result.stderr
        sandbox.reap()
        assert said(sandbox, "echo on") == "on\n"


@needs_root
def test_memory_is_bounded() -> None:
    with contextlib.closing(make(max_memory_mb=64)) as sandbox:
        if "memory: how much it takes is not bounded" in sandbox.described["does_not_isolate"]:  # type: ignore[operator]
            pytest.skip("no control groups for memory here")
        result = sandbox.run([sys.executable, "-c", "b = bytearray(200 << 20)"], phase=Phase.AGENT, timeout=60)
        assert result.exit_status == 137
        assert said(sandbox, "echo on") == "on\n"


def test_a_shim_lies_over_the_program_wherever_it_is(tmp_path: Path) -> None:
    with contextlib.closing(make()) as sandbox:
        shim = sandbox.bin_dir / "sort"
        shim.write_text("#!/bin/sh\necho shim\n")
        shim.chmod(0o755)
        assert sandbox.cover("sort", shim)
        assert said(sandbox, "/usr/bin/sort </dev/null; /bin/sort </dev/null; env -i sort </dev/null") == "shim\n" * 3


def test_the_harness_serves_processes_without_a_network() -> None:
    with contextlib.closing(make()) as sandbox:
        served = sandbox.serve(lambda connection: (connection.sendall(b"hello\n"), connection.close())[0])
        assert said(sandbox, "awk '/:/{print $1}' /proc/net/dev").split() == ["lo:"]
        code = f"import socket; print(socket.create_connection(('127.0.0.1', {served.port})).recv(9))"
        assert said(sandbox, f'python3 -I -c "{code}"') == "b'hello\\n'\n"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", served.port))


HARNESS = """
from tests.sandbox.bubblewrapping import make, said, sh
sandbox = make()
print(said(sandbox, "readlink /proc/self/ns/pid"), end="", flush=True)
sh(sandbox, "setsid sleep {tag} & sleep {tag}")
"""


def test_nothing_outlives_a_harness_that_is_killed(tmp_path: Path) -> None:
    tag = new_tag()
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS.format(tag=tag)],
        cwd=REPOSITORY,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert harness.stdout is not None
        namespace = harness.stdout.readline().strip()
        wait_until(lambda: len(alive(tag)) >= 2 and len(_members(namespace)) >= 4)
    finally:
        harness.kill()
        harness.wait()
        harness.stdout.close()
    wait_until(lambda: alive(tag) == [] and _members(namespace) == [])


def _members(namespace: str) -> list[Path]:
    """The processes in a namespace of process ids."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str((process / "ns/pid").readlink()) == namespace:
                found.append(process)
    return found


AS_USER = """
from tests.sandbox.bubblewrapping import make, said, sh
from pytest_codereval.sandbox.protocol import Phase
from pathlib import Path
sandbox = make(withhold=(Path({repository!r}),), max_pids=60)
def serve(connection):
    connection.sendall(b"hello")
    connection.close()
port = sandbox.serve(serve).port
print(said(sandbox, "id -u; grep CapEff /proc/self/status; ls -d {repository} 2>&1; unshare -Ur true 2>&1"), end="")
code = f"import socket; print(socket.create_connection(('127.0.0.1', {{port}})).recv(9))"
print(said(sandbox, f'python3 -I -c "{{code}}"'), end="")
print(sh(sandbox, "i=0; while [ $i -lt 100 ]; do sleep 60 & i=$((i+1)); done").exit_status != 0)
sh(sandbox, "kill -9 -1")
print(sh(sandbox, "sleep 9", timeout=0.3).timed_out, said(sandbox, "ls -d /proc/[0-9]* | wc -l"), end="")
print(sh(sandbox, "cp /bin/sh s; chmod 6755 s; kill -9 1; kill -9 -1; true").exit_status)
print(said(sandbox, "echo on"), end="")
sandbox.begin_grading()
print(said(sandbox, "ls; ls {repository}/README.md", Phase.GRADE), end="")
print(sh(sandbox, "kill -9 $$", Phase.GRADE).exit_status, "not bounded" in str(sandbox.described))
sandbox.close()
print(sandbox.leftovers)
"""


@needs_root
def test_a_normal_user_has_the_same() -> None:
    if (python := python_for_all()) is None:
        pytest.skip("no interpreter for other users")
    lines = as_other_user(python, AS_USER.format(repository=str(REPOSITORY))).splitlines()
    assert lines[:2] == ["65534", "CapEff:\t" + "0" * 16]
    assert "No such file" in lines[2]
    assert "unshare failed" in lines[3]
    assert lines[4:6] == ["b'hello'", "True"]
    assert lines[6].split()[0] == "True"
    assert int(lines[6].split()[1]) <= 6
    assert lines[7:] == ["0", "on", "s", f"{REPOSITORY}/README.md", "137 True", "()"]


@needs_root
def test_what_an_agent_marks_setuid_gives_nothing() -> None:
    with contextlib.closing(make()) as sandbox:
        said(sandbox, "cp /usr/bin/id s && chmod 6755 s")
        found = (sandbox.workspace / "s").stat()
        owner = sandbox.system.owner
        assert owner is not None
        assert (found.st_uid, found.st_gid) == (owner.uid, owner.gid)


def test_why_there_is_no_bubblewrap_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = drivers.driver("bubblewrap").availability()
    assert not found.usable
    assert "bwrap is not on PATH (package bubblewrap)" in found.reason
    for name in ("nsenter", "setpriv", "prlimit", "bwrap"):
        (tmp_path / name).write_text("#!/bin/sh\necho bubblewrap 0.6.2\necho 'bwrap: unknown option' >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    found = drivers.driver("bubblewrap").availability()
    assert found == Availability(False, "bubblewrap 0.6.2 is too old, it takes 0.8.0: bwrap: unknown option")


@needs_root
def test_mounts_that_come_and_go_do_not_make_it_unusable() -> None:
    argv = ["unshare", "-m", sys.executable, "-m", "tests.sandbox.mounts_come_and_go"]
    assert subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout == "ended with 0\n"


def test_concurrent_commands_do_not_disturb_each_other() -> None:
    with contextlib.closing(make()) as first, contextlib.closing(make()) as second:
        found: list[str] = []
        threads = [
            threading.Thread(target=lambda s=s: found.extend(said(s, "echo $HOME") for _ in range(5)))  # type: ignore[misc]
            for s in (first, second)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == sorted([f"{first.home}\n", f"{second.home}\n"] * 5)
