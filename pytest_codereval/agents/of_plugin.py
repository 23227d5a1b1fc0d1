"""An agent that a plugin brings, held to the protocol: what it raises, tells or never ends is a fault of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import queue
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import clock
from ..errors import AgentError, Cause, TrialError
from ..trajectory.model import Event, ModelCall, ModelFault
from .protocol import MOST_EVENTS, time_is_up

if TYPE_CHECKING:
    from .protocol import Agent, Job

GRACE = 3.0
"""Seconds past its deadline in which an agent may still tell what it has, and those that it has to stop."""

LONGEST_START = 60.0
"""Seconds that an agent may take to start."""

_END = object()
_Result = TypeVar("_Result")


class AgentOfPlugin:
    """See `protocol.Agent`. The plugin's agent works in one thread of its own, which is left behind when it hangs."""

    def __init__(self, name: str, origin: str, create: Callable[[], Agent]) -> None:
        self._name = f"the agent {name!r} ({origin})"
        self._create = create
        self._agent: Agent | None = None
        self._worker = _Worker(f"codereval-agent-{name}")
        self._over = False
        self._runs = 0
        self._untold: ModelCall | None = None

    def start(self, job: Job) -> None:
        """See `protocol.Agent.start`."""
        watched = dataclasses.replace(job, admit=lambda main: not self._over and job.admit(main))
        self._agent = self._do(self._create, LONGEST_START, "start")
        self._do(lambda: self._made.start(watched), LONGEST_START, "start")

    @property
    def _made(self) -> Agent:
        assert self._agent is not None, "start() comes first"
        return self._agent

    def run(self, prompt: str, deadline: float) -> Iterator[Event]:
        """See `protocol.Agent.run`. That the agent told of no call of a model is told as a call of unknown usage."""
        yield from self._unknown()
        self._runs += 1
        self._untold = call = ModelCall(f"untold-{self._runs}", None, complete=False, started=clock.now())
        try:
            with contextlib.closing(self._events(prompt, deadline)) as events:
                for event in events:
                    yield self._noted(event)
        except TrialError:
            if self._worker.busy:
                self._untold = call
            yield from self._unknown()
            raise
        yield from self._unknown()

    def _noted(self, event: Event) -> Event:
        if isinstance(event, ModelCall | ModelFault):
            self._untold = None
        return event

    def _unknown(self) -> Iterator[Event]:
        untold, self._untold = self._untold, None
        if untold is not None:
            yield dataclasses.replace(untold, ended=clock.now())

    def _events(self, prompt: str, deadline: float) -> Generator[Event]:
        events = self._do(lambda: iter(self._made.run(prompt, deadline)), _until(deadline), "run")
        try:
            for _ in range(MOST_EVENTS):
                event = self._do(lambda: next(events, _END), _until(deadline), "run")
                if event is _END:
                    return
                if clock.monotonic() >= deadline + GRACE:
                    raise time_is_up(self._name)
                yield cast("Event", event)
            raise self._crash(f"told more than {MOST_EVENTS} events in one run")
        finally:
            close = getattr(events, "close", None)
            if close is not None and not self._worker.busy:
                self._do(close, GRACE, "run")

    def stop(self) -> Iterator[Event]:
        """See `protocol.Agent.stop`."""
        self._over = True
        try:
            if self._agent is not None:
                told = self._do(lambda: list(self._made.stop() or ()), GRACE, "stop")
                yield from map(self._noted, told)
        except TrialError:
            yield from self._unknown()
            raise
        finally:
            self._worker.end()
        yield from self._unknown()

    def _do(self, call: Callable[[], _Result], seconds: float, what: str) -> _Result:
        """The result of a call in the agent's thread. Raises TrialError."""
        try:
            return self._worker.do(call, seconds)
        except TimeoutError:
            raise AgentError(Cause.TURN_TIMEOUT, f"{self._name}: {what}() did not end in time") from None
        except _Raised as raised:
            raise self._fault(raised.error, what) from raised.error

    def _fault(self, error: BaseException, what: str) -> TrialError:
        if isinstance(error, TrialError) and isinstance(error.cause, Cause) and error.cause is not Cause.BUDGET_SPENT:
            asked = error.retry_after if isinstance(error, AgentError) else None
            return AgentError(error.cause, str(error), _seconds(asked)) if isinstance(error, AgentError) else error
        frames = traceback.extract_tb(error.__traceback__)
        place = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        return self._crash(f"{what}() raised {''.join(traceback.format_exception_only(error)).strip()}{place}")

    def _crash(self, what: str) -> AgentError:
        return AgentError(Cause.AGENT_CRASH, f"{self._name}: {what}")


def _until(deadline: float) -> float:
    return max(0.0, deadline - clock.monotonic()) + GRACE


def _seconds(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0
    return float(value) if known else None  # type: ignore[arg-type]


class _Raised(Exception):
    """Carries what a call raised, which may be meant for pytest or the interpreter and must not get there."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _Worker:
    """One thread that makes calls in order. A call that hangs holds up those behind it, never who asks for them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._last: Future[Any] | None = None

    @property
    def busy(self) -> bool:
        """Whether a call that was given up has not ended."""
        return self._last is not None and not self._last.done()

    def do(self, call: Callable[[], _Result], seconds: float) -> _Result:
        """Make the call. Raises _Raised with what it raised, and TimeoutError after `seconds`."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._last = future = Future[Any]()
        self._calls.put((call, future))
        result: _Result = future.result(seconds)
        return result

    def _work(self) -> None:
        while (task := self._calls.get()) is not None:
            call, future = task
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(_Raised(error))

    def end(self) -> None:
        """Let the thread end after its calls."""
        self._calls.put(None)
