"""The checks by name, and what each asks of who runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..drivers import Isolation
from ..protocol import Sandbox

Make = Callable[..., Sandbox]
"""Makes a fresh sandbox: `make(withhold=(), **config)`, `config` being fields of `task.models.SandboxConfig`.

`withhold` are places of the harness that preparation and grading may read and the agent must never see.
"""

Check = Callable[[Make], None]
"""Raises AssertionError, saying what the contract asks for; CannotTell where the sandbox lacks what it takes to see."""

CHECKS: dict[str, Check] = {}

SHARING: set[str] = set()
"""Checks that may all be given one and the same sandbox; they run in AGENT only and ask for no configuration."""

NEEDED_FROM: dict[str, Isolation] = {}
"""Checks that only drivers of at least this isolation have to pass."""


class CannotTell(Exception):
    """What is needed to see whether the contract is kept is not in the sandbox, such as a program for the network."""


def check(*, sharing: bool = False, needed_from: Isolation | None = None) -> Callable[[Check], Check]:
    """Register a check under its name without `check_`."""

    def register(function: Check) -> Check:
        name = getattr(function, "__name__", "").removeprefix("check_")
        CHECKS[name] = function
        if sharing:
            SHARING.add(name)
        if needed_from is not None:
            NEEDED_FROM[name] = needed_from
        return function

    return register


def equal(found: Any, expected: Any, what: str) -> None:
    """Fail when the two differ, showing both."""
    assert found == expected, f"{what}: expected {expected!r:.500}, found {found!r:.500}"
