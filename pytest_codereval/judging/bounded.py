"""A limit on the computing time of a call, also where the time goes into one endless regular expression."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn, TypeVar

from ..errors import JudgingError

DEFAULT_SECONDS = 5.0
"""Seconds of CPU time that a call may take."""

REPEAT_SECONDS = 0.25
"""The alarm rings again after this time, for the case that a callback swallowed the first one."""

_Result = TypeVar("_Result")


class _OutOfTime(BaseException):
    """Raised inside the call. No `except Exception` on the way may stop it."""


def bounded(call: Callable[[], _Result], seconds: float = DEFAULT_SECONDS) -> _Result:
    """Return `call()`, or raise JudgingError once it has used `seconds` of CPU time in this process.

    Waiting, the time of child processes and what runs in `paused` do not count. A signal of the process's own CPU clock
    interrupts the call; only the main thread can be interrupted so. In any other thread the call runs in a forked
    child: its result or exception comes back (both must be picklable), other changes that it makes in this process's
    memory do not, and it raises where it needs what a fork does not inherit, such as a sandbox to run a command in.
    """
    if threading.current_thread() is threading.main_thread():
        return _interrupted(call, seconds)
    return _forked(call, seconds)


@dataclasses.dataclass
class _Clock:
    """The limit that holds now: whether it may ring, and the CPU seconds that passed while it was stopped."""

    armed: bool = True
    idle: float = 0.0


_running: _Clock | None = None


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Stop the clock of `bounded` for work whose amount is not the call's own, such as reading a program's output.

    Does nothing where no clock runs: outside `bounded`, in another `paused`, and in other threads.
    """
    clock = _running
    if clock is None or not clock.armed or threading.current_thread() is not threading.main_thread():
        yield
        return
    clock.armed = False
    left, _ = signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    started = _cpu_seconds()
    try:
        yield
    finally:
        clock.idle += _cpu_seconds() - started
        clock.armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, max(left, 0.001), REPEAT_SECONDS)


def _interrupted(call: Callable[[], _Result], seconds: float) -> _Result:
    global _running
    outer, clock = _running, _Clock()

    def ring(_signal: int, _frame: FrameType | None) -> None:
        if clock.armed:
            raise _OutOfTime

    started = _cpu_seconds()
    old_handler = signal.signal(signal.SIGVTALRM, ring)
    old_delay, old_interval = signal.setitimer(signal.ITIMER_VIRTUAL, seconds, REPEAT_SECONDS)
    _running = clock
    try:
        return call()
    except _OutOfTime:
        raise JudgingError(_message(seconds)) from None
    finally:
        clock.armed = False
        _running = outer
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, signal.SIG_DFL if old_handler is None else old_handler)
        if outer is not None and outer.armed:
            outer.idle += clock.idle
        if old_delay:
            used = _cpu_seconds() - started - (clock.idle if outer else 0.0)
            signal.setitimer(signal.ITIMER_VIRTUAL, max(old_delay - used, 0.001), old_interval)


def _forked(call: Callable[[], _Result], seconds: float) -> _Result:
    receiver, sender = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(receiver)
        _answer(call, seconds, sender)
    os.close(sender)
    try:
        with open(receiver, "rb") as pipe:
            answer = pipe.read()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not answer:
        raise JudgingError("the process that judged this ended without an answer")
    succeeded, value = pickle.loads(answer)
    if succeeded:
        result: _Result = value
        return result
    raise value


def _answer(call: Callable[[], _Result], seconds: float, sender: int) -> NoReturn:
    """Run in the child, whose only thread is its main thread; never return into the code of the parent."""
    try:
        try:
            answer = pickle.dumps((True, _interrupted(call, seconds)))
        except Exception as error:
            answer = _pickled_error(error)
        with open(sender, "wb") as pipe:
            pipe.write(answer)
    finally:
        os._exit(0)


def _pickled_error(error: Exception) -> bytes:
    try:
        answer = pickle.dumps((False, error))
        pickle.loads(answer)
    except Exception:
        text = "".join(traceback.format_exception_only(error)).strip()
        answer = pickle.dumps((False, JudgingError(text)))
    return answer


def _message(seconds: float) -> str:
    return (
        f"took more than {seconds:g} s of CPU time in the harness: a regular expression with nested repetition, such "
        "as (a+)+, may never end, and a file may be too large for what is asked of it"
    )


def _cpu_seconds() -> float:
    return time.clock_gettime(time.CLOCK_PROCESS_CPUTIME_ID)
