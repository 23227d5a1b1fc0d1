"""Work that is counted, where a time would tell how busy the machine is."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_made(action: Callable[[], object]) -> int:
    """How many functions, also of C, `action` calls in this thread."""
    count = 0

    def count_call(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count_call)
    try:
        action()
    finally:
        sys.setprofile(before)
    return count
