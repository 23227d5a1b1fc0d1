"""How a grader has the agent's own program run: `codereval-run PROGRAM [ARGUMENTS...]`, out of sight of all material.

The program runs in RUN, in the directory of its caller where that lies in the workspace, with the caller's standard
input to its end. What it prints and its exit status come back when it has ended; then nothing lives that it started.
One program runs at a time; others wait for their turn.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Mapping
from pathlib import Path

from .. import clock
from ..errors import CoderEvalError, JudgingError
from ..recorder.answering import Answer, Printed, Request, ShimPlan
from ..recorder.recorder import Recorder
from ..recorder.spool.desk import TAMPERED
from ..recorder.spool.spool import UNFINISHED, fresh_directory
from ..sandbox.protocol import Phase, ProcessResult, Sandbox

LAUNCHER = "codereval-run"

OUTPUT_LIMIT = 8_000_000
"""Bytes that a program may print on its standard output; of its standard error so many are kept."""

FAILED = 125
"""Exit status for what went wrong with the launcher itself, as of env(1) and timeout(1)."""

_GRACE = 5.0
"""Seconds that a program may run longer than its grader, which ends by itself first."""

_IN_FOLDER = 'cd -- "$1" 2>&-; shift; exec "$@"'


def grade(sandbox: Sandbox, command: str, *, timeout: float, env: Mapping[str, str]) -> ProcessResult:
    """Run a shell command in GRADE in which `codereval-run` works, as long as `timeout` seconds.

    Raises TrialError when the sandbox itself failed, JudgingError when what the command did to the launcher's channel
    makes its result worthless.
    """
    folder = sandbox.launcher_dir
    if LAUNCHER in command:
        for phase in (Phase.GRADE, Phase.RUN):
            sandbox.make_ready(phase)
    launches = Launches(sandbox, clock.monotonic() + timeout)
    recorder = Recorder(
        [ShimPlan(LAUNCHER, asks=True, read_stdin=True)],
        folder / "bin",
        folder / "spool",
        answerer=launches,
        host_path_of=sandbox.host_path_of,
        interpreter=sandbox.shim_shell,
        foreign_system=sandbox.shim_shell is not None,
        foreign_user=sandbox.foreign_user,
    )
    try:
        recorder.install()
        recorder.discard_calls_so_far()
        result = sandbox.run(["/bin/sh", "-c", command], phase=Phase.GRADE, timeout=timeout, env=env)
        launches.stop()
        faults = recorder.drain().faults
    finally:
        launches.stop()
        recorder.close()
        launches.close()
        _clear(folder)
    if launches.fault is not None:
        raise launches.fault
    disturbing = [fault for fault in faults if not (fault.endswith(UNFINISHED) or result.timed_out)]
    if disturbing:
        raise JudgingError(f"{LAUNCHER} was disturbed: {disturbing[0].removeprefix(TAMPERED)}")
    return result


def _clear(folder: Path) -> None:
    """Leave nothing that a later command could wait for."""
    with contextlib.suppress(OSError):
        for name in ("bin", "spool"):
            fresh_directory(folder / name, 0o755)


class Launches:
    """Runs what the launcher is asked for, one program after the other; see `answering.Answerer`.

    `fault` is what went wrong with the sandbox meanwhile.
    """

    at_work = LAUNCHER
    faults: tuple[str, ...] = ()

    def __init__(self, sandbox: Sandbox, deadline: float) -> None:
        self._sandbox = sandbox
        self._deadline = deadline
        self._stopped = False
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(self._woken, False)
        self.fault: CoderEvalError | None = None

    def answer(self, request: Request) -> Answer:
        """Run the program. One whose caller is gone is killed."""
        if self._stopped or not request.waits():
            return _failure("nobody waits for the program any more")
        if not request.argv or request.argv[0].startswith("-"):
            return _failure(f"usage: {LAUNCHER} PROGRAM [ARGUMENTS...]", named=False)
        try:
            return self._run(request)
        except CoderEvalError as error:
            self.fault = self.fault or error
            return _failure("the sandbox failed")

    def _run(self, request: Request) -> Printed:
        below = f"{self._sandbox.workspace}/"
        folder = f"./{request.cwd.removeprefix(below)}" if request.cwd.startswith(below) else "."
        argv = ["/bin/sh", "-c", _IN_FOLDER, LAUNCHER, folder, *request.argv]
        running = self._sandbox.stream(
            argv,
            phase=Phase.RUN,
            timeout=max(self._deadline - clock.monotonic(), 0) + _GRACE,
            output_limit=OUTPUT_LIMIT,
            stdin=request.stdin or b"",
            wake=self._woken,
        )
        with contextlib.closing(running):
            return self._collect(running, request)

    def _collect(self, running: Generator[bytes, None, ProcessResult], request: Request) -> Printed:
        output = bytearray()
        while True:
            try:
                piece = next(running)
            except StopIteration as end:
                return _printed(bytes(output), end.value)
            output += piece
            if len(output) > OUTPUT_LIMIT:
                return _failure(f"the program printed more than {OUTPUT_LIMIT} bytes and was killed")
            if not piece:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._woken, 4096)
                if self._stopped or not request.waits():
                    return _failure("nobody waits for the program any more")

    def stop(self) -> None:
        """Kill the program that runs, if any, and run no other. May be called twice."""
        self._stopped = True
        self.caller_left()

    def caller_left(self) -> None:
        """See `answering.Answerer`."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b"w")

    def reset(self) -> None:
        """See `answering.Answerer`. There is nothing to forget."""

    def close(self) -> None:
        """Release what `caller_left` needs, when nobody can call any more."""
        os.close(self._wake)
        os.close(self._woken)


def _printed(output: bytes, result: ProcessResult) -> Printed:
    told = f"{LAUNCHER}: more was printed on standard error\n".encode() if result.truncated else b""
    return Printed("constant", output, result.stderr + told, result.exit_status)


def _failure(reason: str, *, named: bool = True) -> Printed:
    text = f"{LAUNCHER}: {reason}\n" if named else f"{reason}\n"
    return Printed("constant", stderr=text.encode(), exit_status=FAILED)
