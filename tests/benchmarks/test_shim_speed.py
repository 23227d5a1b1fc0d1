"""What a recorded call costs beside /bin/true; printed, never asserted: `pytest --benchmark-only tests/benchmarks`."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_codereval.recorder.recorder import Recorder

CALLS = 500


@dataclasses.dataclass(frozen=True)
class Tool:
    tool: str = "uip"
    exit_code: int = 0
    stdout: str = '{"Result": "Success"}\n'
    stderr: str = ""


def spawn(argv: Sequence[str]) -> None:
    """Start a program with its output thrown away, and wait for it."""
    actions = [(os.POSIX_SPAWN_OPEN, stream, "/dev/null", os.O_RDWR, 0) for stream in (0, 1, 2)]
    os.waitpid(os.posix_spawn(argv[0], argv, {"PATH": "/usr/bin:/bin"}, file_actions=actions), 0)


def seconds(argv: Sequence[str]) -> float:
    started = time.perf_counter()
    spawn(argv)
    return time.perf_counter() - started


@pytest.fixture
def recorder(tmp_path: Path):
    made = Recorder([Tool()], tmp_path / "bin", tmp_path / "spool")
    made.install()
    yield made
    made.close()


@pytest.mark.parametrize("argument", ["small", "x" * 100_000], ids=["3 small arguments", "100 KB"])
def test_constant_reply(benchmark, recorder: Recorder, tmp_path: Path, argument: str, capsys) -> None:
    shim = [str(tmp_path / "bin" / "uip"), "get", "--verbose", argument]
    true = ["/bin/true", "get", "--verbose", argument]
    pairs = [(seconds(true), seconds(shim)) for _ in range(CALLS)]
    floor, call = (statistics.median(column) for column in zip(*pairs, strict=True))
    benchmark(spawn, shim)
    log = recorder.drain()
    assert log.faults == ()
    assert len(log.invocations) >= CALLS
    with capsys.disabled():
        print(
            f"\nconstant reply: {call * 1e3:.2f} ms a call, /bin/true {floor * 1e3:.2f} ms, ratio {call / floor:.2f}, "
            f"{1 / call:.0f} calls a second; {len(log.invocations)} calls, all recorded"
        )


def test_install_and_close(benchmark, tmp_path: Path) -> None:
    def life() -> None:
        recorder = Recorder([Tool()], tmp_path / "bin", tmp_path / "spool")
        recorder.install()
        recorder.drain()
        recorder.close()

    benchmark(life)
