"""Why a reply of the Messages API is none to go on from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..errors import Cause

BROKEN_OFF: Mapping[str, tuple[Cause, str]] = MappingProxyType(
    {
        "refusal": (Cause.REFUSED, "the model refused"),
        "max_tokens": (Cause.OUTPUT_CUT, "the reply was cut off at its limit of tokens"),
        "model_context_window_exceeded": (Cause.CONTEXT_FULL, "the context is full"),
    }
)
"""By `stop_reason`: the cause, and what happened in words. The last block of such a reply may be torn."""


def broken_off(stop_reason: object) -> tuple[Cause, str] | None:
    """Cause and message for a `stop_reason` in `BROKEN_OFF`, None for all else."""
    if not isinstance(stop_reason, str) or stop_reason not in BROKEN_OFF:
        return None
    cause, words = BROKEN_OFF[stop_reason]
    return cause, f"{words} (stop reason {stop_reason})"
