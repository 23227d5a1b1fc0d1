"""Nothing that was started in a sandbox outlives it, however it daemonised and whatever ends the harness."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import supervision
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.protocol import Phase

from .conftest import MakeSandbox
from .processes import (
    ESCAPES,
    REPOSITORY,
    alive,
    can_confine_signals,
    needs_linux,
    needs_signal_scopes,
    new_tag,
    wait_until,
)

pytestmark = needs_linux


def sh(sandbox: DirectorySandbox, script: str, phase: Phase = Phase.AGENT, timeout: float = 20) -> str:
    if phase is Phase.GRADE:
        sandbox.begin_grading()
    return sandbox.run(["sh", "-c", script], phase=phase, timeout=timeout).stdout_text


def beats(sandbox: DirectorySandbox) -> int:
    beat = sandbox.workspace / "beat"
    return beat.stat().st_size if beat.exists() else 0


@pytest.mark.parametrize("kind", ESCAPES)
def test_reaping_ends_every_escaped_process(sandbox: DirectorySandbox, kind: str) -> None:
    tag = new_tag()
    sh(sandbox, ESCAPES[kind].format(tag=tag))
    wait_until(lambda: alive(tag) if kind != "forks on" else beats(sandbox))
    sandbox.reap()
    assert alive(tag) == []
    before = beats(sandbox)
    time.sleep(0.03)
    assert beats(sandbox) == before


def test_a_timeout_ends_every_escaped_process(sandbox: DirectorySandbox) -> None:
    tag = new_tag()
    script = "\n".join(each.format(tag=tag) for each in ESCAPES.values())
    result = sandbox.run(["sh", "-c", f"{script}\necho up; sleep {tag}"], phase=Phase.AGENT, timeout=4)
    assert (result.timed_out, result.exit_status, result.stdout) == (True, 137, b"up\n")
    assert alive(tag) == []
    before = beats(sandbox)
    time.sleep(0.03)
    assert beats(sandbox) == before > 0


def test_an_agent_may_leave_a_server_running_between_its_commands(sandbox: DirectorySandbox) -> None:
    tag = new_tag()
    sh(sandbox, f"setsid sleep {tag} & echo $! >pid")
    assert sh(sandbox, "kill -0 $(cat pid) && echo there") == "there\n"
    sh(sandbox, "kill $(cat pid)")
    wait_until(lambda: not alive(tag))


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.GRADE])
def test_preparation_and_grading_leave_nothing_after_each_command(sandbox: DirectorySandbox, phase: Phase) -> None:
    tag = new_tag()
    sh(sandbox, f"setsid sleep {tag} >/dev/null 2>&1 & sleep {tag} & echo", phase)
    assert alive(tag) == []


def test_closing_ends_processes_and_removes_the_root(make_sandbox: MakeSandbox) -> None:
    sandbox = make_sandbox()
    tag = new_tag()
    sh(sandbox, f"setsid sleep {tag} & setsid sh -c 'while :; do echo >{tag}; rm {tag}; done' &")
    sandbox.close()
    assert alive(tag) == []
    assert not sandbox.root.exists()
    sandbox.close()


def test_two_sandboxes_do_not_touch_each_other(make_sandbox: MakeSandbox) -> None:
    one, two = make_sandbox(), make_sandbox()
    kept, ended = new_tag(), new_tag()
    sh(one, f"setsid sleep {kept} &")
    sh(two, f"setsid sleep {ended} &")
    two.close()
    assert len(alive(kept)) == 1
    assert alive(ended) == []
    one.close()
    assert alive(kept) == []


def test_a_keeper_serves_the_next_sandbox_unconfined(make_sandbox: MakeSandbox) -> None:
    for _ in range(3):
        sandbox = make_sandbox()
        assert "NoNewPrivs:\t0" in sh(sandbox, "grep NoNewPrivs /proc/self/status", Phase.PREPARE)
        sh(sandbox, "true")
        sandbox.close()


OWNER = """
    import os
    from pytest_codereval.sandbox.environment import EnvironmentPlan
    from pytest_codereval.sandbox.protocol import Phase
    from tests.sandbox.making import create
    sandbox = create(environments=EnvironmentPlan())
    print(sandbox.root, flush=True)
    sandbox.run(["sh", "-c", os.environ.pop("SCRIPT")], phase=Phase.AGENT, timeout=100)
"""


def start_owner(
    script: str, tmpdir: Path, executable: str = sys.executable, code: str = OWNER
) -> subprocess.Popen[str]:
    """A process of its own that runs `script` in a sandbox of its own."""
    return subprocess.Popen(
        [executable, "-c", textwrap.dedent(code)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "TMPDIR": str(tmpdir), "SCRIPT": script},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_the_end_of_the_harness_ends_its_agents(tmp_path: Path, number: int) -> None:
    tag = new_tag()
    script = "\n".join(each.format(tag=tag) for each in ESCAPES.values())
    with start_owner(f"{script}\ntouch ready; sleep {tag}", tmp_path) as owner:
        assert owner.stdout is not None
        root = Path(owner.stdout.readline().strip())
        wait_until((root / "workspace" / "ready").exists)
        owner.send_signal(number)
        owner.wait()
    wait_until(lambda: not alive(tag))
    beat = root / "workspace" / "beat"
    before = beat.stat().st_size if beat.exists() else None
    time.sleep(0.03)
    assert (beat.stat().st_size if beat.exists() else None) == before


FORK = """
    sandbox.run(["true"], phase=Phase.AGENT, timeout=60)
    if os.fork() == 0:
        sandbox.close()
        import time
        time.sleep(60)
    sandbox.run("""


def test_a_forked_copy_of_the_harness_keeps_no_agent_alive(tmp_path: Path) -> None:
    tag = new_tag()
    code = OWNER.replace("\n    sandbox.run(", FORK)
    with start_owner(f"touch ready; sleep {tag}", tmp_path, code=code) as owner:
        assert owner.stdout is not None
        root = Path(owner.stdout.readline().strip())
        try:
            wait_until((root / "workspace" / "ready").exists)
            owner.kill()
            owner.wait()
            wait_until(lambda: not alive(tag))
        finally:
            os.killpg(owner.pid, signal.SIGKILL)


def supervisor_pid() -> int:
    return supervision.supervisor().pid


def attack(sandbox: DirectorySandbox, script: str, phase: Phase, timeout: float = 20) -> Cause | None:
    """Run a script that attacks, then reap; the cause of the error, if any."""
    try:
        sh(sandbox, script, phase, timeout)
        sandbox.reap()
    except TrialError as error:
        return error.cause
    return None


@pytest.mark.parametrize("victims", ["$PPID", "{supervisor}", "$PPID {supervisor}", "{supervisor} $PPID"])
def test_killing_keeper_or_supervisor_is_tampering(make_sandbox: MakeSandbox, victims: str) -> None:
    """Preparation is not confined, so that the kill succeeds whatever the kernel has."""
    sandbox, tag = make_sandbox(), new_tag()
    killed = victims.format(supervisor=supervisor_pid())
    script = f"(setsid sleep {tag} &) >/dev/null 2>&1; kill -9 {killed}; sleep {tag}"
    assert attack(sandbox, script, Phase.PREPARE) is Cause.TAMPERED
    wait_until(lambda: not alive(tag))
    sandbox.close()
    following = make_sandbox()
    assert sh(following, "echo fine") == "fine\n"
    following.reap()


def test_killing_the_supervisor_and_ending_at_once_is_seen_at_the_seal(sandbox: DirectorySandbox) -> None:
    sh(sandbox, "true", Phase.PREPARE)
    script = f"kill -9 {supervisor_pid()}; exit 0"
    assert attack(sandbox, script, Phase.PREPARE) is Cause.TAMPERED
    sandbox.reap()


def test_a_supervisor_that_dies_between_two_trials_is_replaced(make_sandbox: MakeSandbox) -> None:
    first = make_sandbox()
    sh(first, "true")
    first.close()
    gone = supervision.supervisor()
    os.kill(gone.pid, signal.SIGKILL)
    wait_until(lambda: not gone.works())
    following = make_sandbox()
    assert sh(following, "echo fine") == "fine\n"
    following.reap()


def test_stopping_the_keeper_is_tampering_too(make_sandbox: MakeSandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "PATIENCE", 0.5)
    sandbox, tag = make_sandbox(), new_tag()
    script = f"(setsid sleep {tag} &) >/dev/null 2>&1; kill -STOP $PPID; sleep 0.1"
    assert attack(sandbox, script, Phase.PREPARE, timeout=3) is Cause.TAMPERED
    assert alive(tag) == []
    sandbox.close()
    assert sh(make_sandbox(), "echo fine") == "fine\n"


@needs_signal_scopes
def test_the_agent_cannot_signal_keeper_supervisor_or_harness(sandbox: DirectorySandbox) -> None:
    script = f"for p in $PPID {supervisor_pid()} {os.getpid()}; do kill -9 $p 2>/dev/null && echo hit; done; echo end"
    assert sh(sandbox, script) == "end\n"
    assert sh(sandbox, script, Phase.GRADE) == "end\n"
    sandbox.reap()


@needs_signal_scopes
def test_killing_everything_that_can_be_killed_ends_only_the_agent(sandbox: DirectorySandbox) -> None:
    tag = new_tag()
    sh(sandbox, f"setsid sleep {tag} &")
    assert len(alive(tag)) == 1
    assert sandbox.run(["sh", "-c", "kill -9 -1; echo on"], phase=Phase.AGENT, timeout=60).stdout == b"on\n"
    wait_until(lambda: not alive(tag))
    sandbox.reap()


@pytest.mark.skipif(can_confine_signals(), reason="the kernel confines the agent's signals")
def test_without_signal_scopes_the_attack_is_detected(sandbox: DirectorySandbox) -> None:
    assert attack(sandbox, "kill -9 $PPID; sleep 9", Phase.AGENT) is Cause.TAMPERED


@pytest.fixture
def interrupt_when_ready() -> Iterator[Callable[[DirectorySandbox], None]]:
    """Send this process a SIGINT, as Ctrl-C does, as soon as `ready` is in the workspace."""
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("only the main thread is interrupted")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    threads: list[threading.Thread] = []

    def start(sandbox: DirectorySandbox) -> None:
        def wait_and_send() -> None:
            wait_until((sandbox.workspace / "ready").exists)
            os.kill(os.getpid(), signal.SIGINT)

        threads.append(threading.Thread(target=wait_and_send))
        threads[-1].start()

    yield start
    for thread in threads:
        thread.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("then", ["close", "reap", "run"])
def test_an_interrupt_while_waiting_kills_everything(
    make_sandbox: MakeSandbox, interrupt_when_ready: Callable[[DirectorySandbox], None], then: str
) -> None:
    sandbox, tag = make_sandbox(), new_tag()
    interrupt_when_ready(sandbox)
    with pytest.raises(KeyboardInterrupt):
        sh(sandbox, f"setsid sleep {tag} & touch ready; sleep {tag}")
    if then == "run":
        assert sh(sandbox, "echo again", Phase.GRADE) == "again\n"
    elif then == "reap":
        sandbox.reap()
    else:
        sandbox.close()
        assert not sandbox.root.exists()
    assert alive(tag) == []
    assert sh(make_sandbox(), "echo next", Phase.GRADE) == "next\n"
