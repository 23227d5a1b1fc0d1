"""What a sandbox promises, whatever driver made it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

DEFAULT_OUTPUT_LIMIT = 1_000_000
"""Bytes kept of each output stream of a process unless the caller says otherwise."""


class Phase(enum.StrEnum):
    """The environment in which a process of a trial runs."""

    PREPARE = "prepare"
    AGENT = "agent"
    GRADE = "grade"


@dataclasses.dataclass(frozen=True)
class ProcessResult:
    """What a process did. `exit_status` follows the shell: 0 to 255, 128 + n when killed by signal n.

    At most the output limit of each stream is kept; `truncated` tells that there was more. `timed_out` tells that
    the harness killed it at its deadline (then `exit_status` is 137).
    """

    exit_status: int
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    timed_out: bool = False
    duration: float = 0.0

    @property
    def stdout_text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def stderr_text(self) -> str:
        return self.stderr.decode("utf-8", "replace")


class Sandbox(Protocol):
    """One trial's place to work. Made by a driver, used by one trial, closed at its end."""

    driver: str
    """Name of the driver that made it."""

    workspace: Path
    """Absolute real path, without spaces, of the directory that the agent works in."""

    home: Path
    """Absolute real path of the agent's HOME."""

    def environment(self, phase: Phase) -> dict[str, str]:
        """The complete environment of a process in `phase`."""

    def run(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
        stdin: bytes = b"",
    ) -> ProcessResult:
        """Run a program in the workspace and wait for it, at most `timeout` seconds, then kill its whole tree.

        `env` is laid over the environment of the phase. Standard input is `stdin` and then ends. A background process
        that keeps an output stream open delays nothing. Raises TrialError when the sandbox itself failed.
        """

    def stream(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
        stdin: bytes = b"",
        wake: int | None = None,
        private_output: bool = False,
    ) -> Generator[bytes, None, ProcessResult]:
        """As `run`, but yield standard output in pieces as it comes, all of it; the result has none.

        With `private_output` no process that the program starts can open its standard output by a path in /proc, nor
        can the program itself (/dev/stdout).

        Yields an empty piece each time the descriptor `wake` is readable, which the caller then has to read. Closing
        the generator kills the whole tree.
        """

    def provide(self, source: Path, name: str) -> Path:
        """Copy a directory of the harness to a place outside the workspace, for the agent to read; its path there.

        Links are not followed and not copied. Raises OSError.
        """

    def write_home(self, path: str, content: bytes) -> None:
        """Write a file below HOME, `path` being relative, before the agent starts. Raises OSError."""

    def write_file(self, path: str, content: bytes, executable: bool = False) -> None:
        """Write a file of the workspace as the agent would, making its folders; never through a link that leaves it.

        An `executable` file can be run afterwards, also where it was there already and could not.

        Raises OSError when that is not possible.
        """

    def reap(self) -> None:
        """Kill every process that was started here, however it daemonised, and prove that none lives.

        Raises TrialError(TAMPERED) when the processes escaped because the supervisor was attacked.
        """

    def close(self) -> None:
        """Reap, then remove everything on disk. May be called twice."""
