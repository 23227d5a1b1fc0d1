"""Each sandbox has a user of its own where the harness is root, among all harnesses that work in one place."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.sandbox import ownership
from pytest_codereval.sandbox.keyrings import can_clear, clear_keyrings
from pytest_codereval.sandbox.ownership import AGENT, USERS, Claim, claim, second
from tests.sandbox.processes import REPOSITORY, needs_linux, needs_root

pytestmark = needs_linux

_HOLDS = """
import sys
from pathlib import Path
from pytest_codereval.sandbox import ownership
ownership.clear_keyrings = lambda uid: None
held = ownership.claim(Path(sys.argv[1]))
print(held.owner.uid, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def without_keyrings(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests claim users that sandboxes elsewhere on this machine may have."""
    monkeypatch.setattr(ownership, "clear_keyrings", lambda uid: None)


@contextlib.contextmanager
def all_taken(base: Path) -> Iterator[list[Claim]]:
    held = [claim(base) for _ in range(USERS)]
    try:
        yield held
    finally:
        for each in held:
            each.release()


def test_no_two_have_one_user_and_what_is_released_can_be_had_again(tmp_path: Path) -> None:
    with all_taken(tmp_path) as held:
        users = {each.owner.uid for each in held} | {second(each.owner).uid for each in held}
        assert len(users) == 2 * USERS
        assert all(each.owner.uid == each.owner.gid for each in held)
        assert held[0].owner == AGENT
        held[7].release()
        held[7].release()
        again = claim(tmp_path, patience=0)
        assert again.owner == held[7].owner
        again.release()


def test_when_all_are_taken_it_waits_for_one_and_not_for_ever(tmp_path: Path) -> None:
    with all_taken(tmp_path) as held:
        with pytest.raises(TrialError, match=r"all 50 users of sandboxes \(61000 to 61049\) were in use") as caught:
            claim(tmp_path, patience=0)
        assert caught.value.cause is Cause.SANDBOX
        waited = claim(tmp_path, patience=20, pause=lambda seconds: held[3].release())
        assert waited.owner == held[3].owner
        waited.release()


def test_another_process_gets_another_user_until_it_dies(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", _HOLDS, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    with subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == f"{AGENT.uid}\n"
        first = claim(tmp_path)
        assert first.owner != AGENT
        other.kill()
    first.release()
    assert claim(tmp_path).owner == AGENT


def test_a_forked_copy_neither_holds_a_user_nor_lets_go_of_it(tmp_path: Path) -> None:
    mine = claim(tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        mine.release()
        os.read(reader, 1)
        os._exit(0)
    os.close(reader)
    try:
        other = claim(tmp_path)
        assert other.owner != mine.owner
        other.release()
        mine.release()
        assert claim(tmp_path, patience=0).owner == AGENT
    finally:
        os.close(writer)
        os.waitpid(child, 0)


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "users").touch()
    with pytest.raises(TrialError, match="no user can be claimed in"):
        claim(tmp_path)


_KEYS = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
os.setresuid(*[int(sys.argv[1])] * 3)
numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
for keyring in (-4, -5):
    if sys.argv[2] == "add":
        print(libc.syscall(numbers[0], b"user", b"cev-note", b"note", 4, keyring) > 0)
    else:
        print(libc.syscall(numbers[1], 10, keyring, b"user", b"cev-note", 0) > 0)
"""


def _keys(uid: int, verb: str) -> list[str]:
    argv = ["/usr/bin/env", "-i", sys.executable, "-I", "-c", _KEYS, str(uid), verb]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


@needs_root
@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no system calls known for keyrings here")
def test_notes_in_keyrings_are_gone_and_this_process_is_what_it_was() -> None:
    uid = 61990
    if _keys(uid, "add") != ["True", "True"]:
        pytest.skip("the kernel keeps no keys here")
    assert _keys(uid, "find") == ["True", "True"]
    before = (os.getresuid(), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
    clear_keyrings(uid)
    assert can_clear()
    assert _keys(uid, "find") == ["False", "False"]
    assert (os.getresuid(), ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)) == before


_IN_A_SESSION = """
import contextlib, ctypes, sys
from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase
from tests.sandbox import bubblewrapping, making
numbers = {numbers}
call = ctypes.CDLL(None).syscall
call(numbers[1], 1, None)
print(call(numbers[0], b"user", b"cev-secret", b"note", 4, -3) > 0)
code = "import ctypes; call = ctypes.CDLL(None).syscall; print(call(%d, 10, -3, b'user', b'cev-secret', 0) > 0, " \\
    "call(%d, b'user', b'cev-left', b'note', 4, -3) > 0)" % (numbers[1], numbers[0])
makers = [lambda: making.create(environments=EnvironmentPlan())]
if drivers.driver("bubblewrap").availability().usable:
    makers.append(bubblewrapping.make)
for make in makers:
    with contextlib.closing(make()) as sandbox:
        for phase in (Phase.PREPARE, Phase.AGENT):
            done = sandbox.run(["python3", "-I", "-c", code], phase=phase, timeout=60)
            print(done.stdout.decode().strip(), done.stderr.decode())
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="no system calls known for keyrings here")
def test_keys_of_the_session_of_the_operator_are_not_inherited() -> None:
    numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}[os.uname().machine]
    argv = [sys.executable, "-c", _IN_A_SESSION.replace("{numbers}", repr(numbers))]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    first, *found = done.stdout.split("\n")
    if first != "True":
        pytest.skip(f"the kernel keeps no keys here: {done.stderr}")
    assert len(found) >= 2, done.stderr
    assert {line.strip() for line in found if line.strip()} == {"False False"}
