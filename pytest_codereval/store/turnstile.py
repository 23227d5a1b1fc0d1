"""How many may use a provider at once, over all workers, and pauses that its rate limits ask of all of them."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import random
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from .. import clock
from ..errors import CoderEvalError
from .locking import locked, release, try_lock
from .run_directory import write_json

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds; where the provider does not say how long, each limit in a row doubles the pause."""

LONGEST_ASKED = 3600.0
"""Seconds that a provider may ask for."""

_SLOWEST_LOOK = 0.25
_FASTEST_LOOK = 0.02


@dataclasses.dataclass(frozen=True)
class _State:
    """`limit` is how many may enter, None as many as like. `paused_until` is a time of `clock.monotonic`."""

    limit: int | None
    paused_until: float = 0.0
    limited_in_a_row: int = 0


class Turnstile:
    """Lets in at most `limit` holders over all processes that share `folder`.

    The limit begins at `most` (None: as many as like, but pauses hold for them too), is halved by a rate limit and
    grows by one with each success. A holder that dies makes room at once. Any thread may call, for several places.
    """

    def __init__(self, folder: Path, provider: str, most: int | None = None, first_pause: float = FIRST_PAUSE) -> None:
        """`first_pause` is in seconds, for a provider that does not say how long to wait; it doubles each time."""
        if most is not None and most < 1:
            raise CoderEvalError(f"at most {most} at once for {provider}: expected 1 or more")
        self._provider = provider
        self._most = most
        self._first_pause = first_pause
        self._folder = folder / f"turnstile-{urllib.parse.quote(provider, safe='')}"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CoderEvalError(f"the turnstile {self._folder} cannot be made: {error.strerror}") from None

    @contextlib.contextmanager
    def enter(self, deadline: float | None = None) -> Iterator[float]:
        """Hold a place as long as the block lasts; gives the seconds that were waited for it.

        Raises TimeoutError at `deadline` (of `clock.monotonic`) while no place is free or a pause lasts. Interrupted
        by Ctrl-C like any sleep.
        """
        begun = clock.monotonic()
        place = self._wait_for_place(begun, math.inf if deadline is None else deadline)
        try:
            yield clock.monotonic() - begun
        finally:
            if place is not None:
                release(place)

    def report_limited(self, retry_after: float | None) -> None:
        """The provider refused a call for its rate: nobody enters for `retry_after` seconds, then half as many may.

        Further reports during the pause lengthen it and do not halve again: they are of calls that began before it.
        """
        with self._locked():
            state, now = self._read(), clock.monotonic()
            row = state.limited_in_a_row
            until = max(state.paused_until, now + self._pause(retry_after, row))
            if now < state.paused_until:
                self._write(dataclasses.replace(state, paused_until=until))
                return
            limit = None if state.limit is None else max(1, state.limit // 2)
            self._write(_State(limit, until, row + 1))

    def report_success(self) -> None:
        """A call went through: one more may enter, up to `most`. Has no effect during a pause."""
        if self._is_at_ease(self._read()):
            return
        with self._locked():
            state = self._read()
            if clock.monotonic() >= state.paused_until:
                limit = None if self._most is None or state.limit is None else min(self._most, state.limit + 1)
                self._write(_State(limit))

    @property
    def limit(self) -> int | None:
        """How many may hold a place now, None without a limit."""
        return self._read().limit

    def _is_at_ease(self, state: _State) -> bool:
        return state.limit == self._most and not state.limited_in_a_row

    def _wait_for_place(self, begun: float, deadline: float) -> int | None:
        while True:
            now = clock.monotonic()
            pause = self._read().paused_until - now
            if pause <= 0:
                entered, place = self._try_place()
                if entered:
                    return place
            if now >= deadline:
                raise TimeoutError(f"waited {now - begun:.0f} s for a place to use {self._provider}")
            wait = min(pause, _SLOWEST_LOOK) if pause > 0 else _next_look(now - begun)
            time.sleep(max(0.0, min(wait, deadline - now)))

    def _try_place(self) -> tuple[bool, int | None]:
        """Whether one may enter, and the place that is held from now on (none is needed without a limit)."""
        if self._most is None:
            return True, None
        with self._locked():
            state = self._read()
            if state.limit is None or clock.monotonic() < state.paused_until:
                return False, None
            place = self._place_below(state.limit)
            return place is not None, place

    def _place_below(self, limit: int) -> int | None:
        """Take a place that nobody holds, as long as fewer than `limit` are held."""
        held, mine = 0, None
        try:
            for number in range(self._most or 0):
                descriptor = os.open(self._folder / f"place-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                if not try_lock(descriptor):
                    os.close(descriptor)
                    held += 1
                elif mine is None:
                    mine = descriptor
                else:
                    release(descriptor)
                if held >= limit:
                    break
        except BaseException as error:
            if mine is not None:
                release(mine)
            if isinstance(error, OSError):
                raise CoderEvalError(f"the turnstile {self._folder} cannot be used: {error.strerror}") from None
            raise
        if held >= limit and mine is not None:
            release(mine)
            return None
        return mine

    def _pause(self, retry_after: float | None, limited_in_a_row: int) -> float:
        if retry_after is None or not math.isfinite(retry_after) or retry_after < 0:
            return min(LONGEST_PAUSE, self._first_pause * 2.0 ** min(limited_in_a_row, 10))
        return min(LONGEST_ASKED, retry_after)

    def _locked(self) -> contextlib.AbstractContextManager[int]:
        return locked(self._folder / "lock")

    def _read(self) -> _State:
        """The shared state; one that cannot be read, or is of another start of the machine, counts as new."""
        try:
            content = json.loads((self._folder / "state.json").read_bytes())
            limit, until, row = content["limit"], float(content["paused_until"]), int(content["limited_in_a_row"])
            limit = self._most if self._most is None or limit is None else max(1, min(self._most, int(limit)))
        except (OSError, ValueError, LookupError, TypeError, OverflowError):
            return _State(self._most)
        if not 0 <= until <= clock.monotonic() + LONGEST_ASKED:
            until = 0.0
        return _State(limit, until, max(0, row))

    def _write(self, state: _State) -> None:
        try:
            write_json(self._folder / "state.json", dataclasses.asdict(state))
        except OSError as error:
            raise CoderEvalError(f"the turnstile {self._folder} cannot be written: {error.strerror}") from None


def _next_look(waited: float) -> float:
    """Who has waited longer looks more often, which makes the order fair enough; drawn, so that looks do not meet."""
    return random.uniform(0.5, 1.0) * max(_FASTEST_LOOK, _SLOWEST_LOOK / (1.0 + waited))
