"""Calls that an agent's input can make endless, such as an author's regular expression: done by a helper process.

A search by `re` holds the interpreter's lock until it ends, so no thread of the harness could stop it.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from ...errors import CoderEvalError

SECONDS = 2.0
"""Seconds of CPU time that a call may take."""

_WALL_SECONDS = 60.0
_Result = TypeVar("_Result")


class OutOfTime(CoderEvalError):
    """A call that did not end in time."""

    def __init__(self) -> None:
        super().__init__(
            f"took more than {SECONDS:g} s: a regular expression with nested repetition, such as (a+)+, may never end"
        )


def guarded(function: Callable[..., _Result], *arguments: object) -> _Result:
    """Return `function(*arguments)`, made in the helper process of this one. The function is one of a module of ours.

    Raises OutOfTime, and CoderEvalError for what the function raises or when there can be no helper.
    """
    return _helper.call(function, arguments)


class _Helper:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def call(self, function: Callable[..., _Result], arguments: tuple[object, ...]) -> _Result:
        request = pickle.dumps((function, arguments, SECONDS))
        with self._lock:
            try:
                succeeded, value = self._answer(request)
            except TimeoutError:
                self._end()
                raise OutOfTime from None
            except (OSError, EOFError, pickle.UnpicklingError) as error:
                self._end()
                raise CoderEvalError(f"the process that searches by regular expressions failed: {error}") from error
            except BaseException:
                self._end()
                raise
        if not succeeded:
            raise OutOfTime if value is None else CoderEvalError(value)
        result: _Result = value
        return result

    def _answer(self, request: bytes) -> tuple[bool, Any]:
        """Ask the helper, and once more a new one when it was killed meanwhile."""
        try:
            return self._exchange(self._running(), request)
        except (BrokenPipeError, EOFError):
            self._end()
            return self._exchange(self._running(), request)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
            self._process, self._owner = _start(), os.getpid()
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], request: bytes) -> tuple[bool, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], _WALL_SECONDS)
        if not ready:
            raise TimeoutError
        answer: tuple[bool, Any] = pickle.load(process.stdout)
        return answer

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        process.wait()

    def at_exit(self) -> None:
        with self._lock:
            self._end()


def _start() -> subprocess.Popen[bytes]:
    path = [str(Path(__file__).parents[3]), *sys.path]
    program = f"import sys; sys.path[:] = {path!r}; from {__name__} import serve; serve()"
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        start_new_session=True,
    )


class _Rung(BaseException):
    """Raised inside the call when its time is up."""


def serve() -> None:
    """Make the calls that come in on standard input, until it ends."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise _Rung

    signal.signal(signal.SIGVTALRM, ring)
    while True:
        try:
            function, arguments, seconds = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_made(function, arguments, seconds), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _made(function: Callable[..., object], arguments: tuple[object, ...], seconds: float) -> tuple[bool, object]:
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        try:
            return True, function(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except _Rung:
        return False, None
    except Exception as error:
        return False, f"{type(error).__name__}: {error}"


_helper = _Helper()
atexit.register(_helper.at_exit)
