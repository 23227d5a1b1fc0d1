"""The one clock: wall time for records, monotonic time for durations and deadlines."""

from __future__ import annotations

import datetime
import time


def now() -> float:
    """Seconds since the epoch."""
    return time.time()


def monotonic() -> float:
    """Seconds of a clock that never goes back; only differences mean something."""
    return time.monotonic()


def isoformat(seconds: float) -> str:
    """UTC time in ISO 8601 with milliseconds, from seconds since the epoch."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")
