"""The turnstile: never more holders than the limit over all processes, pauses for all, and no place is lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_codereval.errors import CoderEvalError
from pytest_codereval.store.turnstile import LONGEST_ASKED, Turnstile

VISITOR = """
import sys, time
from pathlib import Path
from pytest_codereval.store.turnstile import Turnstile
turnstile = Turnstile(Path(sys.argv[1]), "anthropic", int(sys.argv[2]))
print("up", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[3])):
    with turnstile.enter():
        entered = time.monotonic()
        time.sleep(0.02)
        print(entered, time.monotonic(), flush=True)
"""
HOLDER = """
import sys, time
from pathlib import Path
from pytest_codereval.store.turnstile import Turnstile
with Turnstile(Path(sys.argv[1]), "anthropic", int(sys.argv[2])).enter():
    print("in", flush=True)
    time.sleep(60)
"""


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def await_up(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"


def let_in(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@contextlib.contextmanager
def holder(folder: Path, most: int) -> Iterator[subprocess.Popen[str]]:
    process = start(HOLDER, folder, most)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "in\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def soon() -> float:
    return time.monotonic() + 0.1


def is_full(turnstile: Turnstile) -> bool:
    try:
        with turnstile.enter(time.monotonic()):
            return False
    except TimeoutError:
        return True


def test_eight_processes_never_hold_more_than_the_limit(tmp_path: Path) -> None:
    visitors = [start(VISITOR, tmp_path, 3, 5) for _ in range(8)]
    for visitor in visitors:
        await_up(visitor)
    for visitor in visitors:
        let_in(visitor)
    changes: list[tuple[float, int]] = []
    for visitor in visitors:
        told, complaint = visitor.communicate(timeout=60)
        assert visitor.returncode == 0, complaint
        times = [tuple(map(float, line.split())) for line in told.splitlines()]
        assert len(times) == 5
        changes += [(entered, 1) for entered, _ in times] + [(left, -1) for _, left in times]
    inside = most = 0
    for _, change in sorted(changes):
        inside += change
        most = max(most, inside)
    assert 2 <= most <= 3


def test_threads_of_one_process_count_apart(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 2)
    with turnstile.enter(), turnstile.enter():
        full: list[bool] = []
        thread = threading.Thread(target=lambda: full.append(is_full(turnstile)))
        thread.start()
        thread.join(60)
        assert full == [True]
        assert is_full(Turnstile(tmp_path, "anthropic", 2))
    assert not is_full(turnstile)


def test_a_holder_that_is_killed_makes_room(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 1)
    with holder(tmp_path, 1) as process:
        assert is_full(turnstile)
        os.kill(process.pid, signal.SIGKILL)
        with turnstile.enter(time.monotonic() + 60):
            pass


def test_a_child_of_the_holder_does_not_keep_its_place(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 1)
    with turnstile.enter():
        forked = os.fork()
        if forked == 0:
            time.sleep(30)
            os._exit(0)
    try:
        assert not is_full(turnstile)
    finally:
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)


def test_an_error_inside_gives_the_place_back(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 1)
    with pytest.raises(ZeroDivisionError), turnstile.enter():
        _ = 1 / 0
    assert not is_full(turnstile)


def test_waiting_ends_at_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 1)
    looks: list[float] = []
    sleep = time.sleep

    def counted(seconds: float) -> None:
        looks.append(seconds)
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", counted)
    with turnstile.enter():
        begun = time.monotonic()
        with pytest.raises(TimeoutError, match="for a place to use anthropic"), turnstile.enter(begun + 0.5):
            pass
        assert time.monotonic() - begun >= 0.5
        assert len(looks) < 100, "it sleeps between its looks"
    with turnstile.enter(0.0):
        pass


def test_ctrl_c_ends_the_waiting(tmp_path: Path) -> None:
    with Turnstile(tmp_path, "anthropic", 1).enter():
        process = start(VISITOR, tmp_path, 1, 1)
        await_up(process)
        let_in(process)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        _, complaint = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in complaint


def test_a_rate_limit_halves_and_successes_raise_by_one(tmp_path: Path) -> None:
    mine, other = Turnstile(tmp_path, "anthropic", 5), Turnstile(tmp_path, "anthropic", 5)
    seen = []
    for _ in range(4):
        mine.report_limited(0)
        seen.append(other.limit)
    for _ in range(5):
        other.report_success()
        seen.append(mine.limit)
    assert seen == [2, 1, 1, 1, 2, 3, 4, 5, 5]


def test_who_is_inside_when_the_limit_falls_counts(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 4)
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(turnstile.enter())
        first.enter_context(turnstile.enter())
        second.enter_context(turnstile.enter())
        second.enter_context(turnstile.enter())
        turnstile.report_limited(0)
        first.close()
        assert turnstile.limit == 2
        assert is_full(turnstile)
        second.close()
        assert not is_full(turnstile)


@pytest.mark.parametrize("most", [None, 4])
def test_a_pause_holds_for_all_and_ends(tmp_path: Path, most: int | None) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", most)
    turnstile.report_limited(1.0)
    begun = time.monotonic()
    assert is_full(Turnstile(tmp_path, "anthropic", most))
    assert not is_full(Turnstile(tmp_path, "openai", most))
    with Turnstile(tmp_path, "anthropic", most).enter() as waited:
        assert time.monotonic() - begun >= 0.9
        assert 0 < waited <= time.monotonic() - begun + 0.01


def test_reports_during_a_pause_lengthen_it_and_halve_once(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 8)
    for seconds in (5.0, 0.0, 30.0, None):
        turnstile.report_limited(seconds)
    turnstile.report_success()
    assert turnstile.limit == 4
    left = state(turnstile_folder(tmp_path))["paused_until"] - time.monotonic()
    assert 5 < left <= 30


def turnstile_folder(folder: Path) -> Path:
    return folder / "turnstile-anthropic"


def state(folder: Path) -> dict[str, float]:
    content = json.loads((folder / "state.json").read_text())
    assert isinstance(content, dict)
    return content


def test_a_limit_without_a_time_pauses_longer_each_time(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 8)
    pauses = []
    for _ in range(9):
        before = time.monotonic()
        turnstile.report_limited(None)
        after = time.monotonic()
        content = state(turnstile_folder(tmp_path))
        pauses.append((content["paused_until"] - after, content["paused_until"] - before))
        (turnstile_folder(tmp_path) / "state.json").write_text(json.dumps(content | {"paused_until": 0}))
    expected = [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert all(least - 0.001 <= s <= most + 0.001 for (least, most), s in zip(pauses, expected, strict=True))


@pytest.mark.parametrize("asked", [1e12, float("inf"), float("nan"), -5.0])
def test_a_senseless_time_does_not_stop_the_session_for_ever(tmp_path: Path, asked: float) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 8)
    turnstile.report_limited(asked)
    assert 0 < state(turnstile_folder(tmp_path))["paused_until"] - time.monotonic() <= LONGEST_ASKED


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b'{"limit": 2, "pau',
        b"[]",
        b'{"limit": "x", "paused_until": 0, "limited_in_a_row": 0}',
        b'{"limit": Infinity, "paused_until": 0, "limited_in_a_row": 0}',
        b'{"limit": 99, "paused_until": 1e300, "limited_in_a_row": -3}',
        b'{"limit": -5, "paused_until": NaN, "limited_in_a_row": 0}',
    ],
)
def test_a_torn_state_counts_as_new(tmp_path: Path, content: bytes) -> None:
    turnstile = Turnstile(tmp_path, "anthropic", 3)
    (turnstile_folder(tmp_path) / "state.json").write_bytes(content)
    assert turnstile.limit in (1, 3)
    with turnstile.enter(soon()):
        pass
    turnstile.report_limited(0)
    turnstile.report_success()
    assert turnstile.limit == 2


def test_without_a_limit_as_many_as_like_enter(tmp_path: Path) -> None:
    turnstile = Turnstile(tmp_path, "a/b", None)
    with contextlib.ExitStack() as stack:
        for _ in range(50):
            stack.enter_context(turnstile.enter(soon()))
    turnstile.report_success()
    assert turnstile.limit is None


def test_a_wrong_limit_or_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CoderEvalError, match="expected 1 or more"):
        Turnstile(tmp_path, "anthropic", 0)
    (tmp_path / "file").touch()
    with pytest.raises(CoderEvalError, match="cannot be made"):
        Turnstile(tmp_path / "file", "anthropic", 1)
