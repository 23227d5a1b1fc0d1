"""Runs an agent's program in the sandbox and makes events of the lines that it prints, to the end of its stream."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .. import clock
from ..errors import AgentError, Cause
from ..redaction import redact_bytes
from ..sandbox.protocol import Phase, ProcessResult
from ..trajectory.model import Event
from .protocol import Job

if TYPE_CHECKING:
    from .gateway.server import Gateway

LONGEST_LINE = 64_000_000
"""Bytes; a line that is longer ends the run as a crash."""


@dataclasses.dataclass(frozen=True)
class Launch:
    """How the program is started. `env` is laid over the agent's environment, `stdin` ends after these bytes.

    `private_output` is for a program that tells events: its tools cannot write some of their own among them.
    """

    argv: Sequence[str]
    env: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stdin: bytes = b""
    private_output: bool = False


class LineReader(Protocol):
    """Makes events of what the program prints, one line of its standard output after the other."""

    def read(self, line: bytes) -> Iterable[Event]:
        """The events of one line, without its line feed. Never raises for a line that it does not understand."""

    def finish(self, result: ProcessResult) -> Iterable[Event]:
        """What is left to tell when the program has ended by itself. Raises AgentError when it failed."""


def run_program(
    job: Job, launch: Launch, reader: LineReader, deadline: float, gateway: Gateway | None = None
) -> Iterator[Event]:
    """Run the program until it ends, until `deadline`, or until the gateway had to refuse it a call of the model.

    What it printed before that call is read, and how it ends after it does not matter. What is read is kept in
    `job.artifacts` as `output-N.jsonl` and `errors-N.txt`. Raises AgentError, also AgentError(TURN_TIMEOUT) past the
    deadline.
    """
    with _Keeping(job.artifacts) as kept:
        stream = job.sandbox.stream(
            launch.argv,
            phase=Phase.AGENT,
            timeout=deadline - clock.monotonic(),
            env=launch.env,
            stdin=launch.stdin,
            wake=gateway.wake if gateway else None,
            private_output=launch.private_output,
        )
        result: ProcessResult | None = None
        refused = False
        rest = b""
        try:
            while result is None and not refused:
                refused = gateway is not None and gateway.refused
                try:
                    piece = next(stream)
                except StopIteration as end:
                    result = end.value
                    piece = b"\n" if rest else b""
                *lines, rest = (rest + piece).split(b"\n")
                if len(rest) > LONGEST_LINE:
                    raise AgentError(Cause.AGENT_CRASH, f"the agent printed a line of more than {LONGEST_LINE} bytes")
                for line in lines:
                    kept.output(line)
                    yield from reader.read(line)
                if gateway is not None:
                    yield from gateway.events()
        finally:
            stream.close()
        if gateway is not None:
            gateway.settle()
            yield from gateway.events()
        if result is not None:
            kept.errors(result.stderr)
        if result is None or (gateway is not None and gateway.refused):
            return
        if result.timed_out:
            raise AgentError(Cause.TURN_TIMEOUT, "the agent's program was still running at its deadline")
        yield from reader.finish(result)


class _Keeping:
    """The raw output of the program as files of the trial's record, secrets left out."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        number = next(n for n in itertools.count(1) if not (folder / f"output-{n}.jsonl").exists())
        self._output = (folder / f"output-{number}.jsonl").open("wb")
        self._errors = folder / f"errors-{number}.txt"

    def __enter__(self) -> _Keeping:
        return self

    def __exit__(self, *_: object) -> None:
        self._output.close()

    def output(self, line: bytes) -> None:
        self._output.write(redact_bytes(line) + b"\n")

    def errors(self, text: bytes) -> None:
        if text:
            self._errors.write_bytes(redact_bytes(text))
