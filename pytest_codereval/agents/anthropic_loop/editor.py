"""The text editor tool: files are read and written by small shell scripts in the sandbox, with the agent's rights."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ... import clock
from ...sandbox.protocol import Phase
from ...text import cut
from ..protocol import time_is_up
from .outcome import InvalidInput, Outcome, error
from .shell import SHOWN

if TYPE_CHECKING:
    from ...sandbox.protocol import ProcessResult, Sandbox

TIMEOUT = 60.0
"""Seconds that one script may take."""

LARGEST_FILE = 16_000_000
"""Bytes of a file that can be viewed or edited."""

LONGEST_PATH = 4000

COMMANDS: Mapping[str, str] = MappingProxyType(
    {"view": "Read", "create": "Write", "str_replace": "Edit", "insert": "Edit"}
)
"""Which tool of the common vocabulary each command is."""

_TOLD: Mapping[str, str] = MappingProxyType(
    {
        "path": "file_path",
        "view_range": "view_range",
        "file_text": "content",
        "old_str": "old_string",
        "new_str": "new_string",
        "insert_text": "new_string",
        "insert_line": "insert_line",
    }
)
_READ = """
[ -d "$1" ] && exit 100
[ -e "$1" ] || { echo "there is no such file" >&2; exit 1; }
[ -f "$1" ] || { echo "this is no regular file" >&2; exit 1; }
command -p cat -- "$1"
"""
_WRITE = """
[ ! -e "$1" ] || [ -f "$1" ] || { echo "this is no regular file" >&2; exit 1; }
command -p mkdir -p -- "$2" && command -p cat > "$1"
"""
_LIST = """
cd -- "$1" && command -p find . -mindepth 1 -maxdepth 2 -name '.*' -prune -o -mindepth 1 -print | command -p sort
"""
_IS_DIRECTORY = 100


def as_common_call(parameters: Mapping[str, object]) -> tuple[str, dict[str, object]] | None:
    """Name and parameters of a call in the common vocabulary; None when the editor has no such command."""
    command = parameters.get("command")
    name = COMMANDS.get(command) if isinstance(command, str) else None
    if name is None:
        return None
    told: dict[str, object] = {
        theirs: parameters[ours] for ours, theirs in _TOLD.items() if parameters.get(ours) is not None
    }
    if name == "Edit":
        told = {"old_string": "", "new_string": "", **told}
    return name, told


class Editor:
    """Commands of one agent. A relative path starts in the workspace."""

    def __init__(self, sandbox: Sandbox, permitted: frozenset[str]) -> None:
        self._sandbox = sandbox
        self._permitted = permitted

    @property
    def commands(self) -> list[str]:
        """What is permitted."""
        return [command for command, tool in COMMANDS.items() if tool in self._permitted]

    def run(self, parameters: Mapping[str, object], deadline: float) -> Outcome:
        """Carry out a call of the tool. Raises InvalidInput, and AgentError(TURN_TIMEOUT) without any time left."""
        command = parameters.get("command")
        if not isinstance(command, str) or command not in COMMANDS:
            raise InvalidInput(f"`command` is one of {', '.join(self.commands)}")
        if command not in self.commands:
            raise InvalidInput(f"{command} is not permitted here; permitted: {', '.join(self.commands)}")
        path = self._path(_text(parameters, "path"))
        try:
            match command:
                case "view":
                    return self._view(path, parameters.get("view_range"), deadline)
                case "create":
                    return self._write(path, _text(parameters, "file_text"), deadline, "written")
                case "str_replace":
                    new = "" if parameters.get("new_str") is None else _text(parameters, "new_str")
                    return self._replace(path, _text(parameters, "old_str"), new, deadline)
                case _:
                    return self._insert(path, parameters.get("insert_line"), _text(parameters, "insert_text"), deadline)
        except _Refused as refused:
            return error(f"{path}: {refused}")

    def _path(self, path: str) -> str:
        if not path or "\0" in path or len(path.encode()) > LONGEST_PATH:
            raise InvalidInput(f"`path` is a path of 1 to {LONGEST_PATH} bytes")
        if path == "~" or path.startswith("~/"):
            return f"{self._sandbox.home}{path[1:]}"
        return posixpath.join(str(self._sandbox.workspace), path)

    def _view(self, path: str, lines: object, deadline: float) -> Outcome:
        content = self._read(path, deadline)
        if content is None:
            listing = self._sh(_LIST, path, deadline=deadline)
            _refuse_failure(listing)
            return _shown(f"{path}:\n{listing.stdout_text}" if listing.stdout else f"{path}: an empty directory")
        text = _as_text(content)
        if not text:
            return Outcome("success", "", shown="(the file is empty)")
        whole = text.removesuffix("\n").split("\n")
        first, last = _range(lines, len(whole))
        return _shown("".join(f"{number:6}\t{whole[number - 1]}\n" for number in range(first, last + 1)))

    def _replace(self, path: str, old: str, new: str, deadline: float) -> Outcome:
        if not old:
            raise InvalidInput("`old_str` is empty")
        content = self._file(path, deadline)
        count = content.count(old.encode())
        if count != 1:
            raise _Refused(f"`old_str` has to be there exactly once; it is there {count} times")
        return self._write(path, content.replace(old.encode(), new.encode()), deadline, "edited")

    def _insert(self, path: str, after: object, text: str, deadline: float) -> Outcome:
        if not isinstance(after, int) or isinstance(after, bool):
            raise InvalidInput("`insert_line` is a number of a line, 0 for the start of the file")
        lines = self._file(path, deadline).splitlines(keepends=True)
        if not 0 <= after <= len(lines):
            raise _Refused(f"`insert_line` is a number from 0 to {len(lines)}")
        before = b"".join(lines[:after])
        if before and not before.endswith(b"\n"):
            before += b"\n"
        added = text.encode()
        if added and not added.endswith(b"\n"):
            added += b"\n"
        return self._write(path, before + added + b"".join(lines[after:]), deadline, "edited")

    def _file(self, path: str, deadline: float) -> bytes:
        content = self._read(path, deadline)
        if content is None:
            raise _Refused("this is a directory")
        return content

    def _read(self, path: str, deadline: float) -> bytes | None:
        """The content of a file, None for a directory."""
        result = self._sh(_READ, path, deadline=deadline)
        if result.exit_status == _IS_DIRECTORY:
            return None
        _refuse_failure(result)
        if result.truncated:
            raise _Refused(f"the file is larger than {LARGEST_FILE} bytes")
        return result.stdout

    def _write(self, path: str, content: str | bytes, deadline: float, done: str) -> Outcome:
        data = content.encode() if isinstance(content, str) else content
        result = self._sh(_WRITE, path, posixpath.dirname(path), stdin=data, deadline=deadline)
        _refuse_failure(result)
        return Outcome("success", f"{path}: {done}")

    def _sh(self, script: str, *arguments: str, deadline: float, stdin: bytes = b"") -> ProcessResult:
        left = deadline - clock.monotonic()
        if left <= 0:
            raise time_is_up("the agent")
        return self._sandbox.run(
            ["/bin/sh", "-c", script, "sh", *arguments],
            phase=Phase.AGENT,
            timeout=min(left, TIMEOUT),
            output_limit=LARGEST_FILE,
            stdin=stdin,
        )


class _Refused(Exception):
    """The file is not such that the command can be carried out."""


def _refuse_failure(result: ProcessResult) -> None:
    if result.timed_out:
        raise _Refused(f"killed after {TIMEOUT:g} s")
    if result.exit_status != 0:
        raise _Refused(result.stderr_text.strip()[-500:] or f"exit status {result.exit_status}")


def _text(parameters: Mapping[str, object], key: str) -> str:
    value = parameters.get(key)
    if not isinstance(value, str):
        raise InvalidInput(f"`{key}` is missing or no text")
    return value


def _as_text(content: bytes) -> str:
    if b"\0" in content:
        raise _Refused("this is a binary file")
    return content.decode("utf-8", "replace")


def _range(lines: object, count: int) -> tuple[int, int]:
    if lines is None:
        return 1, count
    if not (
        isinstance(lines, list)
        and len(lines) == 2
        and all(isinstance(number, int) and not isinstance(number, bool) for number in lines)
    ):
        raise InvalidInput("`view_range` is a list of the first and the last line, -1 for the end of the file")
    first, last = lines
    last = count if last == -1 else min(last, count)
    if not 1 <= first <= last:
        raise _Refused(f"there is no range {lines}; the file has {count} lines")
    return first, last


def _shown(text: str) -> Outcome:
    return Outcome("success", text, shown=cut(text, SHOWN))
