"""Carries out recorded tool calls in a sandbox, with the agent's rights: shell commands and changes of files."""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ... import clock
from ...errors import AgentError, Cause
from ...sandbox.protocol import Phase, ProcessResult
from ...trajectory.model import ToolCall, ToolStatus
from ..shells import in_bash

if TYPE_CHECKING:
    from ...sandbox.protocol import Sandbox

OUTPUT_LIMIT = 16_000_000
"""Bytes of a command's output, or of a file that is edited."""

_FOLLOWED = """
cd -- "$(command -p cat "$2" 2>/dev/null)" 2>/dev/null || cd -- "$3" || exit 1
eval "$1"
set -- $? "$2"
command pwd -P >| "$2"
exit "$1"
"""
_ALONE = 'cd -- "$2" || exit 1; eval "$1"'
_BACKGROUND = '"${BASH:-/bin/sh}" -c "$1" </dev/null >/dev/null 2>&1 &'
_READ = 'command -p cat -- "$1"'
_WRITE = 'command -p mkdir -p -- "$2" && command -p cat > "$1"'
_DELETE = 'command -p rm -f -- "$1"'
_EDITS = ("Edit", "MultiEdit")
_DIRECTORY_KEYS = ("workdir", "cwd", "dir_path")


@dataclasses.dataclass(frozen=True)
class Done:
    """What came of a call."""

    status: ToolStatus
    output: str = ""
    exit_status: int | None = None


class Workshop:
    """Used for one replay. `keeps_directory`: a shell command begins in the directory in which the last one ended."""

    def __init__(self, sandbox: Sandbox, keeps_directory: bool) -> None:
        self._sandbox = sandbox
        self._keeps_directory = keeps_directory

    def can_do(self, call: ToolCall) -> bool:
        """Whether a recorded call is done anew: it was done when it was recorded, and the record says all of it.

        A command that failed without an exit status, and a change that failed, were refused by the agent's program.
        """
        if call.name == "Bash":
            refused = call.status == "error" and call.exit_status is None
            return isinstance(call.parameters.get("command"), str) and not refused
        if call.name == "Write":
            return call.status != "error" and _has(call.parameters, "file_path", "content")
        if call.name in _EDITS:
            complete = call.parameters.get("kind") == "delete" or _edits(call.parameters) is not None
            return call.status != "error" and _has(call.parameters, "file_path") and complete
        return False

    def leaves_undone(self, call: ToolCall) -> bool:
        """Whether a call changed a file in a way that the record does not tell, so that it cannot be done anew."""
        return call.name in ("Write", *_EDITS) and call.status != "error" and not self.can_do(call)

    def carry_out(self, call: ToolCall, deadline: float) -> Done:
        """Do what `can_do` permitted. Past the deadline it is cut short."""
        if call.name == "Bash":
            return self._bash(call, deadline)
        place = str(call.parameters["file_path"])
        if call.name == "Write":
            return self._write(place, str(call.parameters["content"]), deadline)
        if call.parameters.get("kind") == "delete":
            return _done(self._run(["/bin/sh", "-c", _DELETE, "sh", place], deadline))
        return self._edit(place, _edits(call.parameters) or [], deadline)

    def _bash(self, call: ToolCall, deadline: float) -> Done:
        command = str(call.parameters["command"])
        if call.parameters.get("run_in_background") is True:
            result = self._run(in_bash(_BACKGROUND, command), deadline)
            return Done("success" if result.exit_status == 0 else "error", "(replay: started in the background)")
        workspace = str(self._sandbox.workspace)
        own = (call.parameters.get(key) for key in _DIRECTORY_KEYS)
        folder = next((value for value in own if isinstance(value, str) and value), None)
        if self._keeps_directory and call.parent_id is None and folder is None:
            memory = f"{self._sandbox.home}/.codereval-replay"
            argv = in_bash(_FOLLOWED, command, memory, workspace)
        else:
            argv = in_bash(_ALONE, command, posixpath.join(workspace, folder or ""))
        result = self._run(argv, deadline)
        output = result.stdout_text + result.stderr_text
        if result.timed_out:
            output += "\n(replay: killed when its time was up)"
        return Done("success" if result.exit_status == 0 else "error", output, result.exit_status)

    def _write(self, place: str, content: str, deadline: float) -> Done:
        argv = ["/bin/sh", "-c", _WRITE, "sh", place, posixpath.dirname(place) or "."]
        return _done(self._run(argv, deadline, content.encode("utf-8", "backslashreplace")))

    def _edit(self, place: str, edits: list[Mapping[str, Any]], deadline: float) -> Done:
        result = self._run(["/bin/sh", "-c", _READ, "sh", place], deadline)
        if result.exit_status != 0 or result.truncated:
            return Done("error", result.stderr_text.strip() or "the file is too large to be edited")
        try:
            text = result.stdout.decode("utf-8")
            for edit in edits:
                text = _edited(text, edit)
        except ValueError as error:
            return Done("error", f"(replay) {error}")
        return self._write(place, text, deadline)

    def _run(self, argv: list[str], deadline: float, stdin: bytes = b"") -> ProcessResult:
        left = deadline - clock.monotonic()
        if left <= 0:
            raise AgentError(Cause.TURN_TIMEOUT, "the time of the replay was up")
        return self._sandbox.run(argv, phase=Phase.AGENT, timeout=left, output_limit=OUTPUT_LIMIT, stdin=stdin)


def _done(result: ProcessResult) -> Done:
    return Done("success") if result.exit_status == 0 else Done("error", result.stderr_text.strip())


def _has(parameters: Mapping[str, object], *keys: str) -> bool:
    return all(isinstance(parameters.get(key), str) for key in keys)


def _edits(parameters: Mapping[str, object]) -> list[Mapping[str, Any]] | None:
    """The replacements that a call asks for; None when it does not say them all."""
    edits = parameters.get("edits")
    found: list[Any] = edits if isinstance(edits, list) else [parameters]
    complete = all(isinstance(edit, Mapping) and _has(edit, "new_string") and _is_placed(edit) for edit in found)
    return found if found and complete else None


def _is_placed(edit: Mapping[str, object]) -> bool:
    line = edit.get("insert_line")
    return _has(edit, "old_string") or (isinstance(line, int) and not isinstance(line, bool) and line >= 0)


def _edited(text: str, edit: Mapping[str, Any]) -> str:
    """`text` with one replacement or insertion made. Raises ValueError when its place is not there."""
    old, new = edit.get("old_string"), edit["new_string"]
    if not isinstance(old, str):
        lines = text.splitlines(keepends=True)
        if edit["insert_line"] > len(lines):
            raise ValueError(
                f"the file has {len(lines)} lines, so nothing can be inserted behind {edit['insert_line']}"
            )
        inserted = new if new.endswith("\n") else f"{new}\n"
        return "".join([*lines[: edit["insert_line"]], inserted, *lines[edit["insert_line"] :]])
    if not old and not text:
        return str(new)
    times = text.count(old) if old else 0
    if times == 0 or (times > 1 and edit.get("replace_all") is not True):
        raise ValueError(f"the text to be replaced stands in the file {times} times")
    return text.replace(old, new)
