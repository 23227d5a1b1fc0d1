"""What an agent's program may print, and how its run ends when the gateway refuses it a call of its model."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_codereval import clock
from pytest_codereval.agents import program
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
        self.given: dict[str, str] = {}
        self.env: dict[str, str] = {}

    def environment(self, phase: object) -> dict[str, str]:
        return self.given

    def stream(self, argv: object, env: dict[str, str], **options: Any) -> Generator[bytes, None, ProcessResult]:
        self.env = env
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


def test_what_is_printed_late_is_read_and_a_refused_program_that_goes_on_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "LAST_WORDS", 0.2)
    told = Told(None, b"the end of a tool", b"told late", *itertools.repeat(None, 100_000))
    texts = [event.text for event in run(told, tmp_path) if isinstance(event, Message)]
    assert texts == ["the end of a tool", "told late"]
    assert told.closed
    assert (tmp_path / "output-1.jsonl").read_bytes() == b"the end of a tool\ntold late\n"


def test_how_a_program_ends_that_was_refused_a_call_does_not_matter(tmp_path: Path) -> None:
    told = Told(b"last words")
    assert [event.text for event in run(told, tmp_path) if isinstance(event, Message)] == ["last words"]
    assert (tmp_path / "errors-1.txt").read_bytes() == b"the program was refused"
    with pytest.raises(AgentError, match="it failed"):
        run(Told(b"last words"), tmp_path, gateway=False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ["127.0.0.1,localhost"] * 2),
        ({"HTTP_PROXY": "http://p", "NO_PROXY": "a.example"}, ["a.example,127.0.0.1,localhost"] * 2),
        ({"NO_PROXY": "a", "no_proxy": "b"}, ["a,127.0.0.1,localhost", "b,127.0.0.1,localhost"]),
        ({"no_proxy": "*"}, ["*", "*"]),
    ],
)
def test_no_proxy_stands_between_the_program_and_its_gateway(
    tmp_path: Path, given: dict[str, str], expected: list[str]
) -> None:
    told = Told(b"x")
    told.given = given
    run(told, tmp_path)
    assert [told.env[name] for name in ("NO_PROXY", "no_proxy")] == expected


class Flood(Told):
    """Prints pieces that need not be lines, and ends well."""

    def stream(self, argv: object, env: dict[str, str], **options: Any) -> Generator[bytes, None, ProcessResult]:
        for piece in self.printed:
            yield piece or b""
        return ProcessResult(0)

    def finish(self, result: ProcessResult) -> Iterator[Event]:
        yield from ()


def test_lines_are_put_together_from_pieces(tmp_path: Path) -> None:
    told = Flood(b"a", None, b"b\nc\n\nd", b"e\n", b"f")
    assert [event.text for event in run(told, tmp_path, gateway=False) if isinstance(event, Message)] == [
        *("ab", "c", "", "de", "f")
    ]


def test_a_long_line_takes_no_more_time_than_its_length(tmp_path: Path) -> None:
    (event,) = run(Flood(*[b"x" * 256] * 100_000), tmp_path, gateway=False)
    assert isinstance(event, Message)
    assert len(event.text) == 256 * 100_000


@pytest.mark.parametrize("cap", ["LONGEST_LINE", "MOST_OUTPUT", "MOST_EVENTS"])
def test_what_has_no_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cap: str) -> None:
    monkeypatch.setattr(program, cap, 10)
    told: list[Event] = []
    pieces = [b"x"] * 12 if cap == "LONGEST_LINE" else [b"\n"] * 12
    job: Any = SimpleNamespace(sandbox=Flood(*pieces), artifacts=tmp_path)
    with pytest.raises(AgentError, match=r"more than 10 (bytes|events)") as caught:
        told.extend(run_program(job, Launch(["p"]), job.sandbox, clock.monotonic() + 60))
    assert caught.value.cause is Cause.AGENT_CRASH
    assert len(told) == (0 if cap == "LONGEST_LINE" else 10)
