"""Shell text for processes that show that they live, and looking at them from outside."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..protocol import Phase, ProcessResult, Sandbox

PATIENCE = 30.0
"""Seconds that are waited for what must come."""

QUIET = 0.25
"""Seconds without a sign after which a process that gives thousands in a second counts as dead."""

ESCAPES: Mapping[str, str] = {
    "child": "({beat}) &",
    "no output": "({beat}) >/dev/null 2>&1 </dev/null &",
    "own session": 'setsid sh -c "{beat}" >/dev/null 2>&1 &',
    "daemon": """(setsid sh -c '(env -i sh -c "{beat}" &)' &) >/dev/null 2>&1""",
    "ignores signals": """sh -c 'trap "" TERM HUP INT QUIT; {beat}' &""",
}
"""Ways of a process to outlive the command that started it."""


def sh(sandbox: Sandbox, script: str, phase: Phase = Phase.AGENT, timeout: float = PATIENCE) -> ProcessResult:
    """Run shell text."""
    return sandbox.run(["/bin/sh", "-c", script], phase=phase, timeout=timeout)


def told(sandbox: Sandbox, script: str, phase: Phase = Phase.AGENT) -> str:
    """What shell text prints; it has to succeed."""
    result = sh(sandbox, script, phase)
    said = (result.stdout_text + result.stderr_text)[:500]
    assert result.exit_status == 0, f"in {phase}, {script!r} exited {result.exit_status}: {said}"
    return result.stdout_text


def beat(name: str) -> str:
    """Shell text that appends to the file `name` without end."""
    return f"while :; do echo >>{name}; done"


def escapes(prefix: str) -> tuple[list[str], str]:
    """Names of files, and shell text that leaves behind a process for each, which appends to it without end."""
    names = [f"{prefix}-{number}" for number in range(len(ESCAPES))]
    return names, "\n".join(way.format(beat=beat(name)) for name, way in zip(names, ESCAPES.values(), strict=True))


def all_there(names: Iterable[str]) -> str:
    """Shell text that waits until each of these files has something in it."""
    return "\n".join(f"while [ ! -s {name} ]; do :; done" for name in names)


def await_beats(sandbox: Sandbox, names: Iterable[str]) -> None:
    """Wait until each of these files of the workspace has something in it."""
    until = time.monotonic() + PATIENCE
    for name in names:
        while not _size(sandbox.workspace / name):
            assert time.monotonic() < until, f"the process that writes {name!r} did not begin in {PATIENCE:.0f} s"
            time.sleep(0.005)


def living(sandbox: Sandbox, names: Iterable[str]) -> list[str]:
    """Which of these files of the workspace are still being appended to."""
    before = {name: _size(sandbox.workspace / name) for name in names}
    time.sleep(QUIET)
    return [name for name, size in before.items() if _size(sandbox.workspace / name) != size]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
