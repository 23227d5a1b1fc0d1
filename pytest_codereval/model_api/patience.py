"""How often and after which wait a call of a model is tried again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType

from ..errors import Cause

TRIES: Mapping[Cause, int] = MappingProxyType(
    {Cause.RATE_LIMITED: 4, Cause.OVERLOADED: 4, Cause.CONNECTION: 4, Cause.API_FAULT: 4}
)
"""How many tries a call has in all when one of them fails so; other causes are not tried again."""

LONGEST_WAIT = 60.0
"""Seconds, unless the provider asks for more."""


def tried_again(cause: Cause, tries: int) -> bool:
    """Whether a call that failed for `cause` in the last of its `tries` is to be tried again."""
    return tries < TRIES.get(cause, 1)


def wait_after(tries: int, retry_after: float | None, first_wait: float) -> float:
    """Seconds to wait after the n-th of the `tries`: exponential back-off with jitter, or longer if asked to."""
    own = min(first_wait * 2.0 ** (tries - 1) * random.uniform(0.75, 1.25), LONGEST_WAIT)
    return max(own, retry_after or 0.0)
