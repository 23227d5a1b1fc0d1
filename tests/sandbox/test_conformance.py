"""Every driver keeps the contract. Each check is seen to fail for a driver that breaks what it looks at."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.sandbox import conformance, drivers, registry
from pytest_codereval.sandbox.choice import availability
from pytest_codereval.sandbox.conformance import watching
from pytest_codereval.sandbox.protocol import Phase, ProcessResult
from pytest_codereval.sandbox.tempdir import TempdirDriver


@pytest.fixture(scope="module", params=["tempdir", "bubblewrap"])
def bench(request: pytest.FixtureRequest) -> Iterator[conformance.Bench]:
    found = availability(request.param)
    if not found.usable:
        pytest.skip(f"{request.param} cannot be had: {found.reason}")
    with conformance.Bench(drivers.driver(request.param)) as bench:
        yield bench


@pytest.mark.parametrize("name", conformance.CHECKS)
def test_a_driver_keeps_the_contract(bench: conformance.Bench, name: str) -> None:
    check_contract(bench, name)


def check_contract(bench: conformance.Bench, name: str) -> None:
    """Run a check; skip what this driver need not pass and what cannot be seen here."""
    if name not in bench.needed:
        pytest.skip(f"needed from {conformance.NEEDED_FROM[name].label} on")
    try:
        bench.run(name)
    except conformance.CannotTell as reason:
        pytest.skip(str(reason))


class Broken:
    """A sandbox of `tempdir` that does one thing in a way of its own."""

    def __init__(self, sandbox: Any, name: str, instead: Callable[..., Any]) -> None:
        self._sandbox = sandbox
        setattr(self, name, functools.partial(instead, sandbox))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)


class BrokenDriver(TempdirDriver):
    """Makes such sandboxes."""

    def __init__(self, name: str, instead: Callable[..., Any]) -> None:
        self._breaks = name, instead

    def create(self, order: drivers.Order) -> Any:
        return Broken(super().create(order), *self._breaks)


def _run(change: Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    """A `run` whose arguments are changed."""

    def run(sandbox: Any, argv: list[str], **more: Any) -> ProcessResult:
        argv, more = change(argv, more)
        return sandbox.run(argv, **more)

    return "run", run


def _result(**change: Callable[[ProcessResult], Any]) -> tuple[str, Callable[..., Any]]:
    """A `run` whose result is changed."""

    def run(sandbox: Any, argv: list[str], **more: Any) -> ProcessResult:
        result = sandbox.run(argv, **more)
        return dataclasses.replace(result, **{name: new(result) for name, new in change.items()})

    return "run", run


def _survive(sandbox: Any, argv: list[str], **more: Any) -> ProcessResult:
    result: ProcessResult = sandbox.run(argv, **more)
    if result.timed_out:
        main = f"main-{more['timeout']}"
        sandbox.run(["sh", "-c", f"{watching.beat(main)} &"], **{**more, "timeout": 9})
    return result


def _lose(sandbox: Any, argv: list[str], **more: Any) -> Generator[bytes, None, ProcessResult]:
    stream = sandbox.stream(argv, **more)
    next(stream)
    return (yield from stream)


def _grade_with(then: Callable[[Any], object]) -> tuple[str, Callable[..., Any]]:
    def begin_grading(sandbox: Any) -> None:
        sandbox.begin_grading()
        then(sandbox)

    return "begin_grading", begin_grading


def _grade_at_once(sandbox: Any, argv: list[str], phase: Phase, **more: Any) -> ProcessResult:
    if phase is Phase.GRADE:
        sandbox.begin_grading()
    return sandbox.run(argv, phase=phase, **more)


def _leave(sandbox: Any) -> None:
    (sandbox.root / "left").mkdir(exist_ok=True)
    sandbox.reap()
    sandbox.leftovers = ()


BREAKS: dict[str, tuple[str, Callable[..., Any]]] = {
    "arguments_arrive_as_they_are": _run(lambda argv, more: ([arg.strip() for arg in argv], more)),
    "the_environment_is_exact": _run(lambda argv, more: (argv, {**more, "env": {**(more.get("env") or {}), "X": "1"}})),
    "programs_start_in_the_workspace": _run(lambda argv, more: (["env", "-C", "/", *argv], more)),
    "standard_input_is_given_and_ends": _run(lambda argv, more: (argv, {**more, "stdin": more.get("stdin", b"")[:9]})),
    "output_is_exact": _result(stdout=lambda result: result.stdout.replace(b"\r\n", b"\n")),
    "output_is_bounded": _result(truncated=lambda result: False),
    "exit_statuses_are_those_of_a_shell": _result(exit_status=lambda result: min(result.exit_status, 128)),
    "a_deadline_kills_the_whole_tree": ("run", _survive),
    "a_stream_loses_nothing": ("stream", _lose),
    "private_output_cannot_be_opened_by_a_path": (
        "stream",
        lambda sandbox, argv, **more: sandbox.stream(argv, **{**more, "private_output": False}),
    ),
    "what_the_agent_leaves_lives_until_it_is_reaped": ("reap", lambda sandbox: None),
    "what_preparation_and_grading_leave_dies_at_once": (
        "run",
        lambda sandbox, argv, **more: sandbox.run(argv, **{**more, "phase": Phase.AGENT}),
    ),
    "no_write_of_the_harness_leaves_the_workspace": (
        "write_file",
        lambda sandbox, path, content, executable=False: (sandbox.workspace / path).write_bytes(content),
    ),
    "an_executable_file_can_be_run": (
        "write_file",
        lambda sandbox, path, content, executable=False: sandbox.write_file(path, content),
    ),
    "what_is_made_ready_is_there_for_the_agent": ("write_home", lambda sandbox, path, content: None),
    "shims_are_first_on_the_agents_path_only": ("env_with_shims", lambda sandbox: {}),
    "the_order_of_phases_is_enforced": ("run", _grade_at_once),
    "material_is_there_for_preparation_and_grading": (
        "run",
        lambda sandbox, argv, phase, **more: sandbox.run(argv, phase=phase, **{**more, "env": {"PATH": "/"}}),
    ),
    "grading_works_on_a_sanitised_copy": _grade_with(lambda sandbox: os.mkfifo(sandbox.workspace / "fifo")),
    "grading_has_the_home_that_preparation_left": _grade_with(
        lambda sandbox: Path(sandbox.environment(Phase.GRADE)["TMPDIR"], "x").touch()
    ),
    "closing_removes_everything": ("close", _leave),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_check_fails_for_a_driver_that_breaks_what_it_looks_at(name: str) -> None:
    with conformance.Bench(BrokenDriver(*BREAKS[name])) as bench, pytest.raises(AssertionError):
        bench.run(name)
    registry.release_all()


def test_a_check_whose_means_are_missing_says_so() -> None:
    def no_client(sandbox: Any, argv: list[str], **more: Any) -> ProcessResult:
        return ProcessResult(1) if "command -v" in argv[-1] else sandbox.run(argv, **more)

    with conformance.Bench(BrokenDriver("run", no_client)) as bench, pytest.raises(conformance.CannotTell, match="nc"):
        bench.run("the_harness_serves_the_agent_only")


def test_each_check_can_be_called_with_a_function_that_makes_sandboxes() -> None:
    bench = conformance.Bench(TempdirDriver())
    made = []
    conformance.CHECKS["output_is_exact"](lambda **config: made.append(bench.make(**config)) or made[-1])
    made[0].close()
