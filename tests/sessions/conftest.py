"""Whole sessions with agents that ask a model."""

from ..plugin.conftest import repo

__all__ = ["repo"]
