"""Between the spool, which talks to the shims, and whoever knows the answers: what is asked, what can be answered."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ..text import shorten


@dataclasses.dataclass(frozen=True)
class CapturedRun:
    """What the real program did when its output was kept for a cassette."""

    stdout: bytes
    stderr: bytes
    exit_status: int


@dataclasses.dataclass(frozen=True)
class Request:
    """One call that waits for its answer.

    `cwd` is the absolute directory that the caller was in. `environment` holds the variables that the tool's rules ask
    for, where they were set. `stdin` is None until it was read. `run` is given when the real program has ended. `waits`
    tells whether the caller still lives.
    """

    tool: str
    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    stdin: bytes | None = None
    run: CapturedRun | None = None
    waits: Callable[[], bool] = dataclasses.field(default=lambda: True, compare=False, repr=False)


@dataclasses.dataclass(frozen=True)
class Printed:
    """The shim prints this, waits `delay` seconds before, and exits."""

    answered_by: str
    stdout: bytes = b""
    stderr: bytes = b""
    exit_status: int = 0
    delay: float = 0.0
    unmatched: bool = False


@dataclasses.dataclass(frozen=True)
class RunReal:
    """The shim runs the real program. With `capture` its output comes back in a second request with `run`."""

    answered_by: str = "passthrough"
    capture: bool = False
    delay: float = 0.0
    unmatched: bool = False


@dataclasses.dataclass(frozen=True)
class ReadStdin:
    """The shim reads standard input to its end and asks once more."""


@dataclasses.dataclass(frozen=True)
class Later:
    """What the reply does, and what it says, is settled when `delay` seconds have passed and the caller still waits.

    `finish` is called by the thread that calls `answer`, never raises, and is never called for a caller that was killed
    meanwhile.
    """

    answered_by: str
    delay: float
    finish: Callable[[], Printed]
    unmatched: bool = False


Answer = Printed | RunReal | ReadStdin | Later


def call_text(tool: str, argv: Sequence[str]) -> str:
    """A call as a shell would be given it, for messages; a long one is shortened."""
    return shorten(shlex.join([tool, *argv]), 200)


class Answerer(Protocol):
    """Gives the answers of all tools of a trial. Its methods are called by one thread at a time."""

    def answer(self, request: Request) -> Answer:
        """Answer a call. Never raises: what goes wrong is kept for `faults`, and the caller sees a failing tool."""

    def caller_left(self) -> None:
        """A caller was killed, or has its answer: see `Request.waits`. Called by another thread, in a hurry."""

    def reset(self) -> None:
        """Forget state and counters: the calls until now were not the agent's."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What the author of rules and handlers did wrong, as it showed in a call; makes the trial an error."""

    @property
    def at_work(self) -> str:
        """Which rule or handler is giving the answer in the making, or gave the last one; "" before any."""


@dataclasses.dataclass(frozen=True)
class ShimPlan:
    """How the shim of one tool works. A constant reply stands in the shim itself; else the shim asks.

    `variables` are the environment variables that go with each call. `read_stdin` has every call send its standard
    input. `passthrough` is for a tool that always runs the real program, without asking first. `may_run_real`
    says the same of some answers of a tool that asks.
    """

    tool: str
    asks: bool = False
    passthrough: bool = False
    may_run_real: bool = False
    read_stdin: bool = False
    variables: tuple[str, ...] = ()
    stdout: bytes = b""
    stderr: bytes = b""
    exit_status: int = 0
