"""Files of this machine that a task's own command lines name, which run in the sandbox."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .protocol import Job


def expose_servers(job: Job) -> None:
    """Let the agent read the files that the commands of its MCP servers name by absolute paths."""
    for server in (job.config.mcp_servers or {}).values():
        expose_named(job, (server.command or "", *server.args))


def expose_named(job: Job, command: Iterable[str]) -> None:
    """Let the agent read the files that the words of a command line are the absolute paths of."""
    for word in command:
        if word.startswith("/") and "\0" not in word and Path(word).is_file():
            job.sandbox.expose(Path(word))
