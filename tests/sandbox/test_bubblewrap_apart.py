"""The driver `bubblewrap`: sandboxes at the same time and one after the other, interrupted and forked harnesses."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

import pytest

from pytest_codereval.sandbox import cgroups, drivers, supervision
from pytest_codereval.sandbox.bubblewrap import holder
from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.kernel import descendants
from pytest_codereval.sandbox.protocol import Phase
from tests.sandbox.bubblewrapping import make, said, sh
from tests.sandbox.processes import alive, needs_root, new_tag, wait_until

_HERE = drivers.driver("bubblewrap").availability()

pytestmark = pytest.mark.skipif(not _HERE.usable, reason=f"no bubblewrap: {_HERE.reason}")

KEYS = """python3 -I - <<'E'
import ctypes, os
call = ctypes.CDLL(None).syscall
add, control = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
print([call(control, 10, keyring, b"user", b"cev-note", 0) > 0 for keyring in (-4, -5)])
print([call(add, b"user", b"cev-note", b"note", 4, keyring) > 0 for keyring in (-4, -5)])
E"""


def user_of(sandbox: DirectorySandbox) -> int:
    assert sandbox.system.owner is not None
    return sandbox.system.owner.uid


@needs_root
def test_each_sandbox_has_a_user_of_its_own() -> None:
    with contextlib.closing(make()) as first, contextlib.closing(make()) as second:
        users = {user_of(each): each for each in (first, second)}
        assert len(users) == 2
        for uid, each in users.items():
            assert said(each, "id -u; id -g; id -un; id -gn").split() == [f"{uid}", f"{uid}", "agent", "agent"]
            assert said(each, "stat -c %u /proc/1").split() == [f"{uid + 100}"]
            assert each.workspace.stat().st_uid == uid


@needs_root
@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no system calls known for keyrings here")
def test_notes_in_the_keyrings_of_the_kernel_reach_no_other_sandbox() -> None:
    with contextlib.closing(make()) as first:
        left = said(first, KEYS)
        if left != "[False, False]\n[True, True]\n":
            pytest.skip(f"the kernel keeps no keys here: {left}")
        wait_until(lambda: said(first, KEYS).startswith("[True, True]"))
        with contextlib.closing(make()) as beside:
            assert said(beside, KEYS).startswith("[False, False]")
    with contextlib.closing(make()) as later:
        assert said(later, KEYS).startswith("[False, False]")


@needs_root
def test_without_control_groups_processes_are_bounded_for_each_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cgroups, "_parents", lambda limit: iter(()))
    with contextlib.closing(make(max_pids=30)) as first, contextlib.closing(make(max_pids=30)) as second:
        many = "i=0; while [ $i -lt 24 ]; do setsid sleep 60 >/dev/null 2>&1 & i=$((i+1)); done"
        for each in (first, second):
            assert said(each, many) == ""
        assert "fork" in said(first, many)
        assert first.described["limits"]["max_pids"] == 30  # type: ignore[index]


def test_two_sandboxes_end_each_for_itself() -> None:
    with contextlib.closing(make()) as first, contextlib.closing(make()) as second:
        tags = {each: new_tag() for each in (first, second)}
        for each, tag in tags.items():
            sh(each, f"setsid sleep {tag} >/dev/null 2>&1 &")
        wait_until(lambda: all(alive(tag) for tag in tags.values()))
        first.reap()
        assert alive(tags[first]) == []
        assert said(first, "echo anew") == "anew\n"
        assert len(alive(tags[second])) == 1
        assert "sleep" in said(second, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
        first.close()
        assert said(second, "echo on") == "on\n"
        assert len(alive(tags[second])) == 1


@contextlib.contextmanager
def interrupted(sandbox: DirectorySandbox, name: str) -> Iterator[None]:
    """Ctrl-C as soon as a file is there in the workspace."""

    def look(number: int, frame: object) -> None:
        if (sandbox.workspace / name).exists():
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("phase", [Phase.PREPARE, Phase.AGENT])
def test_an_interrupted_run_leaves_nothing_and_the_sandbox_works_on(phase: Phase) -> None:
    tag = new_tag()
    with contextlib.closing(make()) as sandbox:
        with interrupted(sandbox, "begun"):
            sh(sandbox, f"setsid sleep {tag} & touch begun; sleep {tag}", phase, timeout=60)
        wait_until(lambda: alive(tag) == [])
        sandbox.reap()
        assert said(sandbox, "echo on", phase) == "on\n"


def test_an_interrupt_while_the_sandbox_is_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with contextlib.closing(make()) as sandbox:
        with monkeypatch.context() as patched:

            def interrupt(*_: object) -> bytes:
                raise KeyboardInterrupt

            patched.setattr(holder, "_read_until_ready", interrupt)
            with pytest.raises(KeyboardInterrupt):
                said(sandbox, "echo never")
        ours = descendants(supervision.supervisor().pid)
        assert not {*alive("2147483647")} & {*ours}
        assert said(sandbox, "echo on") == "on\n"


def test_a_forked_copy_of_the_harness_touches_nothing_and_can_have_its_own() -> None:
    tag = new_tag()
    with contextlib.closing(make()) as sandbox:
        sh(sandbox, f"setsid sleep {tag} >/dev/null 2>&1 &")
        wait_until(lambda: alive(tag))
        child = os.fork()
        if child == 0:
            status = 1
            with contextlib.suppress(BaseException):
                sandbox.close()
                with contextlib.closing(make()) as own:
                    status = int(said(own, "echo own") != "own\n" or own.root == sandbox.root)
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(alive(tag)) == 1
        assert said(sandbox, "echo on") == "on\n"
