"""The agent `claude-code`: the real program in the sandbox, its model reached through the gateway."""

from .agent import TheAgent

__all__ = ["TheAgent"]
