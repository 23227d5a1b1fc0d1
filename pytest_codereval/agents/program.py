"""Runs an agent's program in the sandbox and makes events of the lines that it prints, to the end of its stream."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from .. import clock
from ..errors import AgentError, Cause
from ..redaction import redact_bytes
from ..sandbox.protocol import Phase, ProcessResult
from ..trajectory.model import Event
from .protocol import MOST_EVENTS, Job, time_is_up

if TYPE_CHECKING:
    from .gateway.server import Gateway

SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Where programs that lay out an agent's place are found, past shims and mocks."""

LAST_WORDS = 5.0
"""Seconds for a program to end once it was refused a call of its model."""

PAUSE = 0.02
"""Seconds between two looks at a program that is to end."""

LONGEST_LINE = 64_000_000
"""Bytes; a line that is longer ends the run as a crash."""

LOOPBACK = "127.0.0.1,localhost"
"""Where a gateway is, as NO_PROXY has it."""

MOST_OUTPUT = 1_000_000_000
"""Bytes on standard output in one run; more end it as a crash."""


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

    After such a call it gets `LAST_WORDS` to end by itself, as what it did before is told late by some programs; how it
    ends then does not matter. What is read is kept in
    `job.artifacts` as `output-N.jsonl` and `errors-N.txt`. Raises AgentError, also AgentError(TURN_TIMEOUT) past the
    deadline.
    """
    with contextlib.closing(_events(job, launch, reader, deadline, gateway)) as events:
        for number, event in enumerate(events):
            if number >= MOST_EVENTS:
                raise AgentError(Cause.AGENT_CRASH, f"the agent told more than {MOST_EVENTS} events in one run")
            yield event


def _events(job: Job, launch: Launch, reader: LineReader, deadline: float, gateway: Gateway | None) -> Generator[Event]:
    with _Keeping(job.artifacts) as kept:
        stream = job.sandbox.stream(
            launch.argv,
            phase=Phase.AGENT,
            timeout=deadline - clock.monotonic(),
            env=_past_proxies(job, launch.env) if gateway else launch.env,
            stdin=launch.stdin,
            wake=gateway.wake if gateway else None,
            private_output=launch.private_output,
        )
        result: ProcessResult | None = None
        refused_at: float | None = None
        lines = _Lines()
        try:
            while result is None and (refused_at is None or clock.monotonic() < refused_at + LAST_WORDS):
                try:
                    piece = next(stream)
                    whole = lines.cut(piece)
                except StopIteration as end:
                    result = end.value
                    whole = lines.rest()
                for line in whole:
                    kept.output(line)
                    yield from reader.read(line)
                if gateway is not None:
                    yield from gateway.events()
                    if gateway.refused and result is None:
                        refused_at = refused_at or clock.monotonic()
                        if not piece:
                            time.sleep(PAUSE)
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
            raise time_is_up("the agent's program")
        yield from reader.finish(result)


def _past_proxies(job: Job, env: Mapping[str, str]) -> dict[str, str]:
    """`env` with the variables by which the program reaches the gateway without a proxy that it may be given."""
    given = {**job.sandbox.environment(Phase.AGENT), **env}
    found = dict(env)
    for name, other in (("NO_PROXY", "no_proxy"), ("no_proxy", "NO_PROXY")):
        kept = given.get(name) or given.get(other)
        found[name] = kept if kept == "*" else ",".join(filter(None, (kept, LOOPBACK)))
    return found


class _Lines:
    """Cuts what comes in pieces into lines, in time that grows with their length."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0
        self._size = 0

    def cut(self, piece: bytes) -> list[bytes]:
        """The lines that this piece ends, without their line feeds. Raises AgentError(AGENT_CRASH) for too much."""
        self._size += len(piece)
        if self._size > MOST_OUTPUT:
            raise AgentError(Cause.AGENT_CRASH, f"the agent printed more than {MOST_OUTPUT} bytes")
        *lines, rest = piece.split(b"\n")
        if lines:
            lines[0] = b"".join([*self._pieces, lines[0]])
            self._pieces, self._length = [], 0
        if rest:
            self._pieces.append(rest)
            self._length += len(rest)
        if self._length > LONGEST_LINE:
            raise AgentError(Cause.AGENT_CRASH, f"the agent printed a line of more than {LONGEST_LINE} bytes")
        return lines

    def rest(self) -> list[bytes]:
        """The last line, where no line feed ended it."""
        return [b"".join(self._pieces)] if self._length else []


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
