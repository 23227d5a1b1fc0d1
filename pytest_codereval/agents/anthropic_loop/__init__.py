"""The agent `anthropic`: a loop over the Messages API whose tools work in the sandbox."""

from .loop import TheAgent

__all__ = ["TheAgent"]
