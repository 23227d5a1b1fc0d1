"""What an agent can do to its harness without a signal: limits, priorities, permissions, floods of processes."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import keeper as keeping
from pytest_codereval.sandbox import registry, supervision
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.protocol import Phase
from pytest_codereval.sandbox.snapshot import Skipped, snapshot

from .conftest import MakeSandbox
from .processes import REPOSITORY, alive, needs_linux, needs_root, needs_signal_scopes, new_tag

pytestmark = needs_linux

KEEPER = "$PPID"
SUPERVISOR = "$(awk '/PPid/{print $2}' /proc/$PPID/status)"


def agent(sandbox: DirectorySandbox, script: str) -> str:
    return sandbox.run(["sh", "-c", script], phase=Phase.AGENT, timeout=60).stdout_text


def tampering(sandbox: DirectorySandbox) -> str:
    with pytest.raises(TrialError) as caught:
        sandbox.reap()
    assert caught.value.cause is Cause.TAMPERED
    return str(caught.value)


ONE_PROCESSOR = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
CHANGES = [
    pytest.param("prlimit --pid {} --nofile=64:64", "RLIMIT_NOFILE", id="limit"),
    pytest.param("prlimit --pid {} --stack=1000000:", "RLIMIT_STACK", id="soft limit"),
    pytest.param("renice -n 5 -p {}", "nice", id="nice"),
    pytest.param("for t in /proc/{}/task/*; do renice -n 5 -p ${{t##*/}}; done", "nice", id="every thread"),
    pytest.param("echo 900 >/proc/{}/oom_score_adj", "oom_score_adj", id="oom"),
    pytest.param("taskset -pc 0 {}", "affinity", id="affinity", marks=ONE_PROCESSOR),
    pytest.param("chrt -i -p 0 {}", "scheduler", id="scheduler"),
]


@pytest.mark.parametrize("whose", [KEEPER, SUPERVISOR], ids=["keeper", "supervisor"])
@pytest.mark.parametrize(("change", "name"), CHANGES)
@pytest.mark.usefixtures("without_landlock")
def test_later_trials_do_not_inherit_what_an_agent_changed(
    make_sandbox: MakeSandbox, whose: str, change: str, name: str
) -> None:
    tool = change.split()[0]
    if tool in ("prlimit", "renice", "taskset", "chrt") and shutil.which(tool) is None:
        pytest.skip(f"no {tool}")
    look = "ulimit -a; nice; cat /proc/self/oom_score_adj; grep -E 'Cpus_allowed:|^policy' /proc/self/status"
    first = make_sandbox()
    before = agent(first, look)
    agent(first, change.format(whose))
    assert name in tampering(first)
    assert agent(make_sandbox(), look) == before
    first.begin_grading()
    assert first.run(["sh", "-c", look], phase=Phase.GRADE, timeout=60).stdout_text == before


def test_pytest_itself_gets_its_soft_limits_back(sandbox: DirectorySandbox) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    agent(sandbox, "true")
    try:
        resource.prlimit(os.getpid(), resource.RLIMIT_FSIZE, (1, before[1]))
        assert "RLIMIT_FSIZE of pytest" in tampering(sandbox)
        assert resource.getrlimit(resource.RLIMIT_FSIZE) == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_trials_that_change_nothing_share_a_keeper(make_sandbox: MakeSandbox) -> None:
    seen = set()
    for _ in range(3):
        sandbox = make_sandbox()
        seen.add(agent(sandbox, "echo $PPID"))
        sandbox.reap()
        sandbox.close()
    assert len(seen) == 1


CHAIN = """
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static void go_on(time_t end) {
    while (time(0) < end) {
        pid_t child = fork();
        if (child > 0) _exit(0);
        if (child < 0) usleep(1000);
    }
    _exit(0);
}
int main(void) {
    time_t end = time(0) + 15;
    setsid();
    for (int i = 0; i < 40; i++)
        if (fork() == 0) go_on(end);
    return 0;
}
"""
"""Forty processes that go on in a child of theirs, again and again, for 15 seconds and no longer."""


@needs_signal_scopes
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_chains_of_forks_do_not_outrun_the_seal(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    """In a control group, as what waits to be collected would leave the machine no process for anybody else."""
    try:
        sandbox = make_sandbox(limits={"max_pids": 4000})
    except TrialError as error:
        pytest.skip(f"no control groups can be made here: {error}")
    (tmp_path / "chain.c").write_text(CHAIN)
    subprocess.run(["cc", "-o", tmp_path / "chain", tmp_path / "chain.c"], check=True)
    tag = new_tag()
    bystander = subprocess.Popen(["sleep", "30"])
    try:
        agent(sandbox, f"{tmp_path}/chain {tag}")
        sandbox.reap()
        assert alive(tag) == []
        assert bystander.poll() is None
        assert agent(sandbox, "echo again") == "again\n"
    finally:
        bystander.kill()
        bystander.wait()


def test_nothing_is_killed_at_once_without_the_scope() -> None:
    script = """
        import os, subprocess
        from pytest_codereval.sandbox.kernel import kill_confined
        bystander = subprocess.Popen(["sleep", "30"])
        killed = []
        real = os.kill
        os.kill = lambda pid, number: killed.append(number) if pid == -1 else real(pid, number)
        os._exit, leave = lambda status: leave(1 if killed else status), os._exit
        kill_confined(os.getpid(), os.getppid())
        status = os.waitpid(-1, 0)[1]
        assert bystander.poll() is None, "killed"
        bystander.kill()
        print(status)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_survivors_that_cannot_be_named_are_survivors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "WIPE_PATIENCE", -1.0)
    monkeypatch.setattr(keeping, "descendants", lambda pid: [])
    monkeypatch.setattr(keeping, "ended_children", list)
    keeper = keeping.Keeper.__new__(keeping.Keeper)
    assert keeper._wipe() == [keeping.UNKNOWN]


GONE = {
    "removed": ('rm -rf "$PWD"', "removed"),
    "renamed": ('mv "$PWD" "$PWD.other"', "removed"),
    "link": ('mv "$PWD" "$PWD.other"; ln -s "$PWD.other" "$PWD"', "replaced by a link"),
    "foreign link": ('rm -rf "$PWD"; ln -s /etc "$PWD"', "replaced by a link"),
    "file": ('rm -rf "$PWD"; echo x >"$PWD"', "replaced by what is no directory"),
    "fifo": ('rm -rf "$PWD"; mkfifo "$PWD"', "replaced by what is no directory"),
}


@pytest.mark.parametrize("how", GONE)
@pytest.mark.usefixtures("without_landlock")
def test_a_workspace_that_the_agent_took_away_is_empty_evidence(
    sandbox: DirectorySandbox, tmp_path: Path, how: str
) -> None:
    attack, reason = GONE[how]
    agent(sandbox, f"echo x >passwd; {attack}")
    sandbox.reap()
    manifest = snapshot(sandbox.workspace, tmp_path / "copy")
    assert (manifest.files, manifest.skipped) == ((), (Skipped(".", reason),))
    sandbox.begin_grading()
    assert not sandbox.files.exists("passwd")
    assert sandbox.files.glob("**/*") == ()
    assert sandbox.run(["true"], phase=Phase.GRADE, timeout=60).exit_status == 126


AS_NOBODY = """
    import os, sys
    from pathlib import Path
    sys.path.insert(0, {repository!r})
    from pytest_codereval.errors import TrialError
    from pytest_codereval.sandbox.environment import EnvironmentPlan
    from pytest_codereval.sandbox.protocol import Phase
    from pytest_codereval.sandbox.snapshot import snapshot
    from tests.sandbox.making import create
    parent = Path({parent!r})

    def trial(script):
        sandbox = create(environments=EnvironmentPlan(), root_parent=parent)
        sandbox.run(["sh", "-c", script], phase=Phase.AGENT, timeout=60)
        cause = "fine"
        try:
            sandbox.reap()
        except TrialError as error:
            cause = str(error.cause)
        copied = [file.path for file in snapshot(sandbox.workspace, parent / "copies" / str(sandbox.root.name)).files]
        sandbox.begin_grading()
        status = sandbox.run(["cat", "a"], phase=Phase.GRADE, timeout=60).exit_status
        sandbox.close()
        print(cause, copied, status, sandbox.leftovers)

    trial("echo x >a; mkdir d; echo x >d/b; chmod 000 d .")
    for above in ("..", "../..", "../../.."):
        trial("echo x >a; chmod 000 " + above)
        trial("echo x >a")
"""


def python_for_all() -> str | None:
    """An interpreter that other users can start too."""
    for python in ("/usr/bin/python3", "/usr/local/bin/python3", sys.executable):
        ask = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        with contextlib.suppress(OSError):
            if subprocess.run(ask, user=65534, cwd="/", check=False, stderr=subprocess.DEVNULL).returncode == 0:
                return python
    return None


@needs_root
def test_permissions_that_an_agent_takes_away_harm_nobody(tmp_path: Path) -> None:
    python = python_for_all()
    if python is None:
        pytest.skip("no interpreter for other users")
    parent = Path("/tmp") / f"cev-test-{new_tag()}"
    parent.mkdir(0o755)
    os.chown(parent, 65534, 65534)
    script = textwrap.dedent(AS_NOBODY).format(repository=str(REPOSITORY), parent=str(parent))
    try:
        done = subprocess.run(
            [python, "-B", "-c", script],
            capture_output=True,
            text=True,
            user=65534,
            group=65534,
            check=False,
            cwd="/",
        )
    finally:
        shutil.rmtree(parent)
    assert done.stderr == ""
    own, *above = done.stdout.splitlines()
    assert own == "fine ['a', 'd/b'] 0 ()"
    assert above[1::2] == ["fine ['a'] 0 ()"] * 3
    assert above[0] == above[2] == "tampered ['a'] 0 ()"
    assert above[4] == "fine ['a'] 0 ()"


@pytest.mark.usefixtures("without_landlock")
def test_a_place_that_was_removed_is_left_without_a_trace(make_sandbox: MakeSandbox, tmp_path: Path) -> None:
    first = make_sandbox(root_parent=tmp_path)
    agent(first, 'rm -rf "$(dirname "$(dirname "$PWD")")"')
    tampering(first)
    with contextlib.suppress(TrialError):
        first.close()
    second = make_sandbox(root_parent=tmp_path)
    assert agent(second, "echo fine") == "fine\n"
    second.close()
    base = tmp_path / f"cev-{os.getuid()}"
    assert len(list(base.glob("*.lock"))) == 1
    registry._registries.pop(Path(os.path.realpath(tmp_path))).release()
    assert list(base.iterdir()) == []


@needs_root
def test_what_cannot_be_removed_is_told(sandbox: DirectorySandbox) -> None:
    if shutil.which("chattr") is None or "able" not in agent(sandbox, "touch a && chattr +i a && echo able"):
        pytest.skip("no immutable files here")
    try:
        sandbox.close()
        assert [leftover for leftover in sandbox.leftovers if "workspace" in leftover]
    finally:
        subprocess.run(["chattr", "-R", "-i", sandbox.root], check=True)
        shutil.rmtree(sandbox.root)


def test_a_copy_that_fails_half_way_leaves_nothing(
    sandbox: DirectorySandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (sandbox.workspace / name).write_text("x" * 2_000_000)
    real = os.write
    written: list[int] = []

    def full(descriptor: int, data: bytes) -> int:
        written.append(len(data))
        if len(written) > 2:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    monkeypatch.setattr("pytest_codereval.sandbox.snapshot.os.write", full)
    with pytest.raises(OSError, match="No space"):
        snapshot(sandbox.workspace, tmp_path / "copy")
    monkeypatch.undo()
    assert not (tmp_path / "copy").exists()


@pytest.mark.usefixtures("without_landlock")
def test_a_supervisor_that_was_changed_is_replaced(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox()
    before = supervision.supervisor().pid
    agent(sandbox, f"echo 900 >/proc/{before}/oom_score_adj")
    assert "supervisor" in tampering(sandbox)
    assert supervision.supervisor().pid != before
