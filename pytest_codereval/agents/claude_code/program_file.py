"""Where the program `claude` is."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from ...errors import AgentError, Cause

ADVICE = "install it with `pip install claude-agent-sdk` or `npm install -g @anthropic-ai/claude-code`"


def find_program() -> str:
    """The real path of `claude`: on the harness's own PATH, else the one that claude-agent-sdk carries.

    Raises AgentError(AGENT_UNAVAILABLE) that says how to install it.
    """
    found = shutil.which("claude")
    if found is not None:
        return os.path.realpath(found)
    bundled = _bundled()
    if bundled is not None:
        return os.path.realpath(bundled)
    raise AgentError(Cause.AGENT_UNAVAILABLE, f"the program `claude` is not on PATH; {ADVICE}")


def surroundings_of(program: str | Path) -> Path:
    """What a sandbox has to show for the program to run: itself, or the package of what Node.js runs."""
    file = Path(os.path.realpath(program))
    return file.parent if file.suffix in (".js", ".cjs", ".mjs") else file


def _bundled() -> str | None:
    """Looked up without importing the package, which is slow."""
    package = importlib.util.find_spec("claude_agent_sdk")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).parent / "_bundled" / "claude"
    return str(program) if os.access(program, os.X_OK) else None
