"""How a trial was isolated, in one line."""

from __future__ import annotations

from collections.abc import Mapping


def isolation_text(driver: str, described: Mapping[str, object] | None) -> str:
    """The driver, by what means it isolates, and what it leaves open: from what a sandbox says of itself.

    Of `Sandbox.described` three keys are read: `means`, a text such as "Landlock 7", `isolates` and
    `does_not_isolate`, each a list of a few words each.
    """
    told = described or {}
    means = told.get("means")
    name = f"{driver} ({means})" if means else driver
    opened = told.get("does_not_isolate")
    if not isinstance(opened, list | tuple):
        return f"{name}: it does not say what it isolates"
    if not opened:
        return f"{name}: isolates all that this package knows of"
    return f"{name}: does not isolate: {'; '.join(map(str, opened))}"
