"""What a program finds in the sandbox before it starts: itself, and its skills."""

from __future__ import annotations

from ...errors import AgentError, Cause, TrialError
from ...sandbox.protocol import Phase
from ..program import SYSTEM_PATH
from ..protocol import Job

TIMEOUT = 60.0
"""Seconds for each of these steps."""

_FIND = 'command -v -- "$1"'
_COPY = 'to=$1; shift; mkdir -p -- "$to" && cp -R -- "$@" "$to/"'


def find_program(job: Job, name: str | None) -> None:
    """See that there is a program called `name` on the agent's PATH. Raises AgentError(AGENT_UNAVAILABLE)."""
    if name is None:
        return
    found = job.sandbox.run(["/bin/sh", "-c", _FIND, "sh", name], phase=Phase.AGENT, timeout=TIMEOUT)
    if found.exit_status != 0:
        raise AgentError(Cause.AGENT_UNAVAILABLE, f"agent.command: there is no program {name!r} on the agent's PATH")


def place_skills(job: Job, folder: str) -> None:
    """Copy the skills to `folder`, relative to HOME. Raises AgentError when two have one name."""
    places: dict[str, str] = {}
    for skill in job.skills.skills:
        if skill.name in places:
            raise AgentError(
                Cause.CONFIGURATION,
                f"agent.plugins: two of them have a skill {skill.name!r}, which cannot lie side by side in {folder}",
            )
        places[skill.name] = str(skill.folder)
    if not places:
        return
    argv = ["/bin/sh", "-c", _COPY, "sh", f"{job.sandbox.home}/{folder}", *places.values()]
    done = job.sandbox.run(argv, phase=Phase.AGENT, timeout=TIMEOUT, env={"PATH": SYSTEM_PATH})
    if done.exit_status != 0:
        raise TrialError(Cause.SANDBOX, f"the skills cannot be copied to {folder}: {done.stderr_text.strip()}")
