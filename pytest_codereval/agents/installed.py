"""Which program an agent is: the harness's own, shown in the sandbox, else the one that is installed in there."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import AgentError, Cause
from ..sandbox.protocol import Phase
from ..text import tail
from .protocol import Job

if TYPE_CHECKING:
    from ..sandbox.protocol import ProcessResult, Sandbox

TIMEOUT = 60.0
"""Seconds that a program may take to tell its version."""

_FIND = 'command -v -- "$1"'
_CANNOT_START = (126, 127)


@dataclasses.dataclass(frozen=True)
class Installed:
    """A program of the sandbox, by its absolute path, and what it says when it is asked for its version."""

    path: str
    version: str


def find_installed(
    job: Job,
    name: str,
    find: Callable[[], str | Path],
    surroundings_of: Callable[[str | Path], Path],
    env: Mapping[str, str],
) -> Installed:
    """The program called `name` that the sandbox can start, asked for its version in the environment `env`.

    `find` gives the harness's own, or raises AgentError that says how to install it; `surroundings_of` tells what the
    sandbox has to show of it. An image in which it cannot start, for want of its libraries, may have one of its own.
    Comes before anything runs in AGENT. Raises AgentError(AGENT_UNAVAILABLE).
    """
    try:
        own = find()
    except AgentError as error:
        lack = error
    else:
        job.sandbox.expose(surroundings_of(own))
        answer = _asked(job, str(own), env)
        if answer.exit_status not in _CANNOT_START:
            return _checked(str(own), answer)
        lack = _failure(str(own), answer, f"; an image can have a {name} of its own on its PATH")
    inside = _find_inside(job.sandbox, name)
    if inside is None:
        raise lack
    return _checked(inside, _asked(job, inside, env))


def _asked(job: Job, program: str, env: Mapping[str, str]) -> ProcessResult:
    return job.sandbox.run([program, "--version"], phase=Phase.AGENT, timeout=TIMEOUT, env=env)


def _checked(program: str, answer: ProcessResult) -> Installed:
    if answer.exit_status != 0:
        raise _failure(program, answer)
    return Installed(program, answer.stdout_text.strip())


def _failure(program: str, answer: ProcessResult, advice: str = "") -> AgentError:
    said = tail((answer.stderr_text or answer.stdout_text).strip(), 500)
    how = f"{program} --version exited {answer.exit_status} in the sandbox"
    return AgentError(Cause.AGENT_UNAVAILABLE, f"{how}: {said}{advice}")


def _find_inside(sandbox: Sandbox, name: str) -> str | None:
    """On the agent's PATH, past shims, mocks and what the task installs."""
    path = sandbox.environment(Phase.AGENT)["PATH"].split(os.pathsep)
    ours = {str(sandbox.bin_dir), *map(str, sandbox.agent_path_dirs), f"{sandbox.venv}/bin"}
    found = sandbox.run(
        ["/bin/sh", "-c", _FIND, "sh", name],
        phase=Phase.AGENT,
        timeout=TIMEOUT,
        env={"PATH": os.pathsep.join(folder for folder in path if folder not in ours)},
    )
    program = found.stdout_text.strip()
    return program if found.exit_status == 0 and program.startswith("/") else None
