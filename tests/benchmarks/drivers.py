"""What a trial's sandbox costs, by driver, beside what it is made of: `python -m tests.benchmarks.drivers [ROUNDS]`."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from pytest_codereval.errors import TrialError
from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.docker import engine
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.protocol import Phase, Sandbox
from pytest_codereval.sandbox.tempdir import shut_down
from pytest_codereval.task.models import SandboxConfig
from tests.sandbox.docker import base_image

STEPS = ("make", "first command", "one more", "grading begins", "first graded", "one more graded", "close")
DRIVERS = ("tempdir", "bubblewrap", "docker")
AT_ONCE = (8, 32)

Make = Callable[[], Sandbox]
Floor = Callable[[], object]


class CannotMeasureError(Exception):
    """Why a driver cannot be measured here."""


def maker(name: str) -> Make:
    """Makes sandboxes of a driver. Raises CannotMeasureError."""
    image = _image() if name == "docker" else None
    order = Order(SandboxConfig.model_validate({"driver": name}), image=image, session="bench", trial="bench")
    driver = drivers.driver(name)
    if not (found := driver.availability(order)).usable:
        raise CannotMeasureError(found.reason)
    return lambda: driver.create(order)


def _image() -> str:
    try:
        return base_image.ensure(_client(), base_image.busybox_recipe())
    except (base_image.CannotBuildError, TrialError) as error:
        raise CannotMeasureError(str(error)) from error


def _client() -> Any:
    found = engine.look()
    if isinstance(found, str):
        raise CannotMeasureError(found)
    import docker

    return docker.DockerClient(base_url=f"unix://{found.socket}", timeout=600)


def floor(name: str, make: Make) -> Floor:
    """What one command costs without the driver: its program, `bwrap` with the same mounts, or plain engine calls.

    The sandbox whose mounts these are stays until the process ends.
    """
    if name == "tempdir":
        return lambda: subprocess.run(["/bin/true"], check=True)
    if name == "docker":
        client, image = _client(), _image()
        return lambda: _bare_container(client, image)
    sandbox: Any = make()
    sandbox.begin_grading()
    _run(sandbox, Phase.GRADE)
    launch = sandbox._enclosures[Phase.GRADE]._launch
    options = os.pread(launch.options, 1 << 20, 0).split(b"\0")[:-1]
    bare = [launch.tools.bwrap, *options, "--", "/bin/true"]
    return lambda: subprocess.run(bare, check=True, cwd="/")


def _bare_container(client: Any, image: str) -> None:
    made = client.containers.create(image, ["-c", "sleep 60"], entrypoint=["/bin/sh"], network_mode="none", init=True)
    try:
        made.start()
        made.exec_run(["true"])
    finally:
        made.remove(force=True)


def life(make: Make) -> tuple[float, ...]:
    """One sandbox with two commands of the agent and two of graders; the seconds of each of `STEPS`."""
    times = [time.perf_counter()]
    sandbox: Any = make()
    times.append(time.perf_counter())
    try:
        for phase in (Phase.AGENT, Phase.GRADE):
            if phase is Phase.GRADE:
                sandbox.begin_grading()
                times.append(time.perf_counter())
            for _ in range(2):
                _run(sandbox, phase)
                times.append(time.perf_counter())
    finally:
        sandbox.close()
    times.append(time.perf_counter())
    return tuple(after - before for before, after in itertools.pairwise(times))


def _run(sandbox: Sandbox, phase: Phase) -> None:
    done = sandbox.run(["true"], phase=phase, timeout=120)
    assert done.exit_status == 0, done.stderr


def seconds(what: Callable[[], object]) -> float:
    started = time.perf_counter()
    what()
    return time.perf_counter() - started


def compared(make: Make, beside: Floor, rounds: int) -> tuple[dict[str, float], float]:
    """The medians of each step and of the floor, measured in turn so that both meet the same load; in seconds."""
    life(make)
    beside()
    found = [(life(make), seconds(beside)) for _ in range(rounds)]
    steps = [statistics.median(column) for column in zip(*(times for times, _ in found), strict=True)]
    return dict(zip(STEPS, steps, strict=True)), statistics.median(floor for _, floor in found)


def at_once(make: Make, count: int) -> float:
    """Seconds for so many whole lives of sandboxes at the same time, each in a process of its own, as under xdist."""
    forking = multiprocessing.get_context("fork")
    together, spans = forking.Barrier(count), forking.Queue()
    workers = [forking.Process(target=_work, args=(make, together, spans)) for _ in range(count)]
    for worker in workers:
        worker.start()
    found: list[tuple[float, float]] = [spans.get(timeout=600) for _ in workers]
    for worker in workers:
        worker.join()
    return max(end for _, end in found) - min(begin for begin, _ in found)


def _work(make: Make, together: Any, spans: Any) -> None:
    life(make)
    together.wait(600)
    begin = time.perf_counter()
    life(make)
    spans.put((begin, time.perf_counter()))
    shut_down()


def report(name: str, rounds: int) -> Iterator[str]:
    """Lines of a table for one driver."""
    make = maker(name)
    beside = floor(name, make)
    steps, base = compared(make, beside, rounds)
    yield f"{name}: floor {base * 1e3:.1f} ms ({_FLOORS[name]})"
    for step, value in steps.items():
        yield f"  {step:16} {value * 1e3:8.1f} ms {value / base:7.2f}"
    whole = sum(steps.values())
    yield f"  {'in all':16} {whole * 1e3:8.1f} ms {whole / base:7.2f}"
    for count in AT_ONCE:
        took = at_once(make, count)
        yield f"  {count:2} at once      {took * 1e3:8.1f} ms, {took / count * 1e3:.1f} ms each"


_FLOORS = {
    "tempdir": "/bin/true",
    "bubblewrap": "bwrap with the same mounts and /bin/true",
    "docker": "create, start, exec, remove of a container by the SDK",
}


def main(rounds: int = 20) -> None:
    for name in DRIVERS:
        try:
            for line in report(name, rounds if name != "docker" else max(1, rounds // 4)):
                print(line, flush=True)
        except CannotMeasureError as error:
            print(f"{name}: {error}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
