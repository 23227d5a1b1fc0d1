"""The names that `sandbox.driver` may have, so that a wrong one is told when a task is loaded."""

from __future__ import annotations

BUILT_IN = ("tempdir", "bubblewrap", "docker")
"""The weakest first."""

_added: list[str] = []


def add(name: str) -> None:
    """Make the name of a plugin's driver known."""
    if name not in _added:
        _added.append(name)


def forget_added() -> None:
    """Forget the names that plugins added."""
    _added.clear()


def names() -> tuple[str, ...]:
    """All names."""
    return (*BUILT_IN, *_added)
