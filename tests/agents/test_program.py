"""How the run of an agent's program ends when the gateway has to refuse it a call of its model."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents.program import Launch, run_program
from pytest_codereval.errors import AgentError, Cause
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.trajectory.model import Event, Message


class Told:
    """A program that prints a line for each text, and nothing for None; it is refused a call before the second."""

    def __init__(self, *printed: bytes | None, status: int = 1) -> None:
        self.printed = printed
        self.status = status
        self.refused = False
        self.wake = -1
        self.closed = False

    def stream(self, argv: object, **options: Any) -> Generator[bytes, None, ProcessResult]:
        try:
            for place, text in enumerate(self.printed):
                self.refused = self.refused or place > 0
                yield b"" if text is None else text + b"\n"
            return ProcessResult(self.status, stderr=b"the program was refused")
        finally:
            self.closed = True

    def events(self) -> Iterator[Event]:
        self.refused = True
        yield from ()

    def settle(self) -> None:
        """Nothing is under way."""

    def read(self, line: bytes) -> Iterator[Event]:
        yield Message("assistant", line.decode())

    def finish(self, result: ProcessResult) -> Iterator[Event]:
        raise AgentError(Cause.AGENT_CRASH, "it failed")


def run(told: Told, folder: Path, *, gateway: bool = True) -> list[Event]:
    job: Any = SimpleNamespace(sandbox=told, artifacts=folder)
    way: Any = told if gateway else None
    return list(run_program(job, Launch(["p"]), told, clock.monotonic() + 60, way))


def test_what_was_printed_before_the_refused_call_is_read_and_no_more(tmp_path: Path) -> None:
    told = Told(None, b"the end of a tool", b"more", *itertools.repeat(b"and more", 9))
    assert [event.text for event in run(told, tmp_path) if isinstance(event, Message)] == ["the end of a tool"]
    assert told.closed
    assert (tmp_path / "output-1.jsonl").read_bytes() == b"the end of a tool\n"


def test_how_a_program_ends_that_was_refused_a_call_does_not_matter(tmp_path: Path) -> None:
    told = Told(b"last words")
    assert [event.text for event in run(told, tmp_path) if isinstance(event, Message)] == ["last words"]
    assert (tmp_path / "errors-1.txt").read_bytes() == b"the program was refused"
    with pytest.raises(AgentError, match="it failed"):
        run(Told(b"last words"), tmp_path, gateway=False)
