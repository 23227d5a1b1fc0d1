"""The bash tool: commands in the sandbox, in the directory that the one before was in at its end."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ... import clock
from ...sandbox.protocol import Phase
from ...text import cut
from ..protocol import time_is_up
from ..shells import in_bash
from .outcome import InvalidInput, Outcome

if TYPE_CHECKING:
    from ...sandbox.protocol import ProcessResult, Sandbox

TIMEOUT = 120.0
"""Seconds that one command may take."""

OUTPUT_LIMIT = 8_000_000
"""Bytes of a command's output that are kept."""

SHOWN = 30_000
"""Characters of a tool's output that the model sees."""

_COMMAND = """
exec 2>&1
cd -- "$(command -p cat {place} 2>/dev/null)" >/dev/null 2>&1 || cd {workspace} || exit 1
eval "$(command -p cat)"
set -- "$?"
command pwd -P 2>/dev/null >| {place}
exit "$1"
"""


class Shell:
    """Commands of one agent. The directory is kept in a file of its HOME, which only the sandbox reads."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._place = str(sandbox.home / ".last_directory")

    def run(self, parameters: Mapping[str, object], deadline: float) -> Outcome:
        """Carry out a call of the tool. Raises InvalidInput, and AgentError(TURN_TIMEOUT) without any time left."""
        if parameters.get("restart") is True:
            return self._restart(deadline)
        command = parameters.get("command")
        if not isinstance(command, str):
            raise InvalidInput("bash needs `command`, a text, or `restart: true`")
        if "\0" in command:
            raise InvalidInput("a command cannot hold a NUL character")
        return self._run(command, deadline)

    def _restart(self, deadline: float) -> Outcome:
        self._sandbox.run(
            ["/bin/sh", "-c", 'command -p rm -rf -- "$1"', "sh", self._place],
            phase=Phase.AGENT,
            timeout=_left(deadline),
        )
        return Outcome("success", "the shell starts in the working directory again")

    def _run(self, command: str, deadline: float) -> Outcome:
        allowed = _left(deadline)
        script = _COMMAND.format(place=shlex.quote(self._place), workspace=shlex.quote(str(self._sandbox.workspace)))
        result = self._sandbox.run(
            in_bash(script),
            phase=Phase.AGENT,
            timeout=allowed,
            output_limit=OUTPUT_LIMIT,
            stdin=command.encode(),
        )
        return _outcome(result, allowed)


def _outcome(result: ProcessResult, allowed: float) -> Outcome:
    output = result.stdout_text + result.stderr_text
    if result.truncated:
        output += f"\n(more than {OUTPUT_LIMIT} bytes; the rest was not kept)"
    if result.timed_out:
        output += f"\n(killed after {allowed:.4g} s, with all that was running in the background)"
    shown = cut(output, SHOWN) or "(no output)"
    if result.exit_status == 0:
        return Outcome("success", output, 0, shown)
    return Outcome("error", output, result.exit_status, f"Exit code {result.exit_status}\n{shown}")


def _left(deadline: float) -> float:
    left = deadline - clock.monotonic()
    if left <= 0:
        raise time_is_up("the agent")
    return min(TIMEOUT, left)
