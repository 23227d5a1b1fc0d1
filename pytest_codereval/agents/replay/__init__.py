"""The agent `replay`: what a trial's record tells is told again, its commands and writes carried out anew."""

from .agent import TheAgent

__all__ = ["TheAgent"]
