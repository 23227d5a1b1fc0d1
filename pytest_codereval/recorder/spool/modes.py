"""The permissions of what lies in a spool, by who makes the calls."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Modes:
    """`directory`: the spool itself. `drop`: the folders where shims leave files. `answer`: what shims read."""

    directory: int
    drop: int
    index: int
    ok: int
    answer: int


OWN = Modes(directory=0o700, drop=0o700, index=0o200, ok=0o600, answer=0o600)
"""The shims run as the harness's own user."""

FOREIGN = Modes(directory=0o755, drop=0o1733, index=0o222, ok=0o622, answer=0o644)
"""The shims run as another user, who can leave files, but neither list them nor remove or replace what is not theirs.

Who may come this far at all is decided by what lies above the spool, or by what a sandbox has in view.
"""
