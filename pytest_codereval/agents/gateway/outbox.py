"""What the gateway tells, in order, and the gate that opens for the next call when all of it was taken."""

from __future__ import annotations

import collections
import os
import threading
from collections.abc import Callable, Iterator

from ...trajectory.model import ModelCall, ModelFault

LONGEST_WAIT = 10.0
"""Seconds that a call waits for a consumer that takes nothing."""

LONGEST_CALL = 120.0
"""Seconds that a call waits for another one that does not end."""


class Outbox:
    """Events for one consumer, from many threads."""

    def __init__(self, admit: Callable[[bool], bool], one_at_a_time: bool = False) -> None:
        """`one_at_a_time` holds a call of the main thread back while another one is under way."""
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self.refused = False
        self._admit = admit
        self._failure: BaseException | None = None
        self._events: collections.deque[ModelCall | ModelFault] = collections.deque()
        self._ids: set[str] = set()
        self._changed = threading.Condition()
        self._admission = threading.Lock()
        self._one_at_a_time = one_at_a_time
        self._main_admission = threading.Lock()
        self._main_calls = 0

    def put(self, event: ModelCall | ModelFault) -> None:
        with self._changed:
            self._events.append(event)
            self._ring()

    def unused(self, wanted: str) -> str:
        """`wanted`, or a variation if an earlier call had it, since an event replaces another one of its id."""
        with self._changed:
            free, number = wanted, 1
            while free in self._ids:
                number += 1
                free = f"{wanted}#{number}"
            self._ids.add(free)
            return free

    def take(self) -> Iterator[ModelCall | ModelFault]:
        """Each event once. It counts as taken when the consumer comes back for the next, or closes the iterator.

        Raises what `admit` raised when all is told.
        """
        self._drain()
        try:
            while self._events:
                try:
                    yield self._events[0]
                finally:
                    with self._changed:
                        self._events.popleft()
                        self._changed.notify_all()
            if self._failure is not None:
                raise self._failure
        finally:
            with self._changed:
                if self._events or self.refused:
                    self._ring()

    def admit(self, main: bool, gone: Callable[[], bool]) -> bool:
        """Whether a call may be made, asked one call at a time, once all that was told before has been taken.

        `gone` says that the caller no longer waits; `nudge` makes it looked at. Past `LONGEST_WAIT` it is asked anyhow,
        and past `LONGEST_CALL` where another call is waited for. What was admitted has to be `ended`.
        """
        if not (main and self._one_at_a_time):
            return self._ask(main, gone)
        with self._main_admission:
            with self._changed:
                self._changed.wait_for(lambda: not self._main_calls or self.refused or gone(), LONGEST_CALL)
            return self._ask(main, gone)

    def _ask(self, main: bool, gone: Callable[[], bool]) -> bool:
        with self._admission:
            with self._changed:
                self._changed.wait_for(lambda: not self._events or gone(), LONGEST_WAIT)
            if gone():
                return False
            try:
                admitted = self._admit(main)
            except BaseException as error:
                self._failure = error
                admitted = False
            with self._changed:
                self._main_calls += admitted and main
                if not admitted:
                    self.refused = True
                    self._ring()
                    self._changed.notify_all()
            return admitted

    def ended(self, main: bool) -> None:
        """A call that was admitted has come to its end, and what it used has been told."""
        with self._changed:
            self._main_calls -= main
            self._changed.notify_all()

    def nudge(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            if self.wake >= 0:
                os.close(self.wake)
                self.wake = -1

    def _ring(self) -> None:
        if self.wake >= 0:
            os.eventfd_write(self.wake, 1)

    def _drain(self) -> None:
        with self._changed:
            if self.wake >= 0:
                try:
                    os.eventfd_read(self.wake)
                except BlockingIOError:
                    return
