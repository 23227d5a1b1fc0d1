"""What a recorded call costs beside /bin/true; printed, never asserted: `pytest --benchmark-only tests/benchmarks`."""

from __future__ import annotations

import itertools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.recorder.answering import ShimPlan
from pytest_codereval.recorder.answers.call import Call, Reply
from pytest_codereval.recorder.answers.engine import Answers
from pytest_codereval.recorder.recorder import Recorder
from pytest_codereval.recorder.spool import spool
from pytest_codereval.task.reply_tables import ToolTable, load_table
from pytest_codereval.task.sandbox_models import RecordedTool

CALLS = 300
TEXT = '{"Result": "Success"}\n'
CONSTANT = ShimPlan("uip", stdout=TEXT.encode())
PYTHON_SHIM = """\
#!/usr/bin/env python3
import json, sys, time
with open({log!r}, "a") as log:
    log.write(json.dumps({{"ts": time.time(), "tool": "uip", "argv": sys.argv[1:], "exit": 0}}) + "\\n")
sys.stdout.write({text!r})
"""


def spawn(argv: Sequence[str], path: str = "/usr/bin:/bin") -> int:
    """Start a program with its output thrown away, and wait for it."""
    actions = [(os.POSIX_SPAWN_OPEN, stream, "/dev/null", os.O_RDWR, 0) for stream in (0, 1, 2)]
    return os.waitpid(os.posix_spawn(argv[0], argv, {"PATH": path}, file_actions=actions), 0)[1]


def seconds(argv: Sequence[str], path: str = "/usr/bin:/bin") -> float:
    started = time.perf_counter()
    assert spawn(argv, path) == 0
    return time.perf_counter() - started


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Callable[..., Recorder]]:
    made: list[Recorder] = []

    def make(*plans: ShimPlan, **options: Any) -> Recorder:
        made.append(Recorder(plans, tmp_path / f"bin{len(made)}", tmp_path / "spool", **options))
        made[-1].install()
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("argument", ["small", "x" * 100_000], ids=["3 small arguments", "100 KB"])
def test_constant_reply(benchmark: Any, recorder: Any, tmp_path: Path, argument: str, capsys: Any) -> None:
    made = recorder(CONSTANT)
    shim = [str(tmp_path / "bin0" / "uip"), "get", "--verbose", argument]
    true = ["/bin/true", "get", "--verbose", argument]
    pairs = [(seconds(true), seconds(shim)) for _ in range(CALLS)]
    floor, call = (statistics.median(column) for column in zip(*pairs, strict=True))
    benchmark(spawn, shim)
    log = made.drain()
    assert log.faults == ()
    assert len(log.invocations) >= CALLS
    with capsys.disabled():
        print(
            f"\nconstant reply: {call * 1e3:.2f} ms a call, /bin/true {floor * 1e3:.2f} ms, ratio {call / floor:.2f}, "
            f"{1 / call:.0f} calls a second; {len(log.invocations)} calls, all recorded"
        )


def uip(call: Call) -> Reply:
    return Reply(json={"verb": call.verb, "n": call.nth})


KINDS: dict[str, dict[str, Any]] = {
    "constant": {"stdout": TEXT, "exit_code": 0},
    "rule": {"responses": [{"when": {"verb": "get"}, "stdout": TEXT}]},
    "last of 200 rules": {
        "responses": [
            *({"when": {"verb": f"v{n}", "flags": {"id": str(n)}}, "stdout": TEXT} for n in range(199)),
            {"when": {"verb": "get"}, "stdout": TEXT},
        ]
    },
    "file reply": {"responses": [{"when": {"verb": "get"}, "stdout_file": "reply.json"}]},
    "handler": {"handler": "uip"},
    "passthrough": {"passthrough": True},
    "rule that passes through": {"responses": [{"when": {"verb": "get"}, "passthrough": True}]},
}


def answering(table: ToolTable, workspace: Path) -> Answers:
    def write_file(path: str, data: bytes, executable: bool = False) -> None:
        raise AssertionError("no reply here has effects")

    return Answers(
        [table],
        workspace_root=workspace,
        write_file=write_file,
        make_folder=lambda path: None,
        find_handler=lambda text, folder: uip,
        trial="bench",
    )


def test_every_kind_of_reply(benchmark: Any, tmp_path: Path, capsys: Any) -> None:
    """Each kind in turn, call by call, so that all meet the same load."""
    (tmp_path / "reply.json").write_text(TEXT * 100)
    (tmp_path / "real").mkdir()
    (tmp_path / "python").mkdir()
    programs: dict[str, tuple[list[str], str]] = {"/bin/true": (["/bin/true"], "/usr/bin:/bin")}
    made: dict[str, Recorder] = {}
    for number, (kind, fields) in enumerate(KINDS.items()):
        tool = f"uip{number}"
        (tmp_path / "real" / tool).symlink_to("/bin/true")
        table = load_table(RecordedTool.model_validate({"tool": tool, **fields}), tmp_path)
        answers = answering(table, tmp_path)
        bin_dir = tmp_path / f"bin-{number}"
        made[kind] = Recorder(answers.plans(), bin_dir, tmp_path / f"spool-{number}", answerer=answers)
        made[kind].install()
        programs[kind] = ([str(bin_dir / tool)], f"{bin_dir}:{tmp_path / 'real'}:/usr/bin:/bin")
    script = tmp_path / "python" / "uip"
    script.write_text(PYTHON_SHIM.format(log=str(tmp_path / "log.jsonl"), text=TEXT))
    script.chmod(0o755)
    programs["env python3 shim"] = ([str(script)], f"{Path(sys.executable).parent}:/usr/bin:/bin")
    times: dict[str, list[float]] = {name: [] for name in programs}

    def call_each_once() -> None:
        for name, (argv, path) in programs.items():
            times[name].append(seconds([*argv, "get", "--id", "7"], path))

    benchmark.pedantic(call_each_once, rounds=CALLS)
    floor = statistics.median(times["/bin/true"])
    with capsys.disabled():
        print(f"\n{CALLS} calls each, median, ninth decile, times /bin/true")
        for name, found in times.items():
            middle = statistics.median(found)
            decile = statistics.quantiles(found, n=10)[-1]
            print(f"  {name:26} {middle * 1e3:6.2f} ms  {decile * 1e3:6.2f} ms  {middle / floor:5.2f}")
    for one in made.values():
        log = one.drain()
        one.close()
        assert log.faults == ()
        assert [call.exit_status for call in log.invocations] == [0] * CALLS


@pytest.mark.parametrize("kind", ["constant", "rule"])
def test_sixteen_writers(
    benchmark: Any, recorder: Any, tmp_path: Path, kind: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 writers make 1,000 calls each with 64 KB of arguments: none is lost or torn, and the order is that of time."""
    writers, calls = 16, 1000
    filler = "y" * 65_536
    table = load_table(RecordedTool.model_validate({"tool": "uip", **KINDS[kind]}), tmp_path)
    answers = answering(table, tmp_path)
    monkeypatch.setattr(spool, "MEMORY_LIMIT", 2 * writers * calls * len(filler))
    made = recorder(*answers.plans(), answerer=answers)
    shim = str(tmp_path / "bin0" / "uip")

    spans: dict[tuple[str, str], tuple[float, float]] = {}

    def write(writer: int) -> None:
        for number in range(calls):
            started = time.time()
            spawn([shim, "get", str(writer), str(number), filler])
            spans[str(writer), str(number)] = started, time.time()

    def write_all() -> None:
        with ThreadPoolExecutor(writers) as pool:
            list(pool.map(write, range(writers)))

    benchmark.pedantic(write_all, rounds=1)
    elapsed = benchmark.stats["max"]
    log = made.drain()
    assert log.faults == ()
    found = [(call.argv[1], call.argv[2]) for call in log.invocations]
    torn = sum(len(call.argv) != 4 or call.argv[3] != filler or call.exit_status != 0 for call in log.invocations)
    lost = writers * calls - len(set(found))
    for writer in range(writers):
        assert [n for w, n in found if w == str(writer)] == [str(number) for number in range(calls)]
    begun = list(itertools.accumulate((spans[call][0] for call in found), max))
    late = sum(spans[call][1] < before for call, before in zip(found, begun, strict=True))
    with capsys.disabled():
        print(
            f"\n{writers} writers x {calls} calls with 64 KB, {kind}: {lost} lost, {torn} torn, {late} after a "
            f"call that began when they had ended; {elapsed:.1f} s, {writers * calls / elapsed:.0f} calls a second"
        )
    assert (lost, torn, late) == (0, 0, 0)


def test_install_and_close(benchmark: Any, tmp_path: Path) -> None:
    def life() -> None:
        recorder = Recorder([CONSTANT], tmp_path / "bin", tmp_path / "spool")
        recorder.install()
        recorder.drain()
        recorder.close()

    benchmark(life)
