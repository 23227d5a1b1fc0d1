"""A pytest plugin in which a task for an AI coding agent is a test.

For handlers of recorded tools: `Call`, `Reply`, `Passthrough`, and the effects `Write` and `Copy`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recorder.answers.call import Call, Copy, Passthrough, Reply, Write

__all__ = ["Call", "Copy", "Passthrough", "Reply", "Write"]


def __getattr__(name: str) -> object:
    """Import the handler API when it is first asked for, so that the plugin alone stays light."""
    if name in __all__:
        from .recorder.answers import call

        return getattr(call, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
