"""Logs of calls as JSON Lines: the one reader, for ours and for those of hand-written mocks, and the writer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeGuard

from ..errors import JudgingError
from .invocation import Invocation, InvocationLog

LOG_DIRECTORY = "cli_mocks"
LOG_NAME = "calls.jsonl"
DEFAULT_LOG = f"{LOG_DIRECTORY}/{LOG_NAME}"
"""Where criteria that read a file find the recorder's log, relative to the workspace."""

_LATEST = 1e12
_RULE = re.compile(r"rule ([0-9]{1,9})")


@dataclasses.dataclass(frozen=True)
class RecorderError:
    """A line in which the mock that wrote it says that its answer cannot be trusted."""

    tool: str
    field: str
    message: str


@dataclasses.dataclass(frozen=True)
class ParsedLog:
    """The usable lines of a log, how many are not usable, and which tell of an error of their writer."""

    invocations: tuple[Invocation, ...] = ()
    unusable: int = 0
    errors: tuple[RecorderError, ...] = ()


def parse_log(text: str) -> ParsedLog:
    """Read a log. A line is usable when it is a JSON object whose `argv` is a list of strings; blank lines are nothing.

    The other fields (`ts`, `tool`, `exit`, `rule`) are taken where they have the right type.
    """
    invocations: list[Invocation] = []
    errors: list[RecorderError] = []
    unusable = 0
    for line in text.removeprefix("\ufeff").split("\n"):
        if not line.strip():
            continue
        fields = _object(line)
        argv = fields.get("argv")
        if not isinstance(argv, list) or not all(isinstance(word, str) for word in argv):
            unusable += 1
            continue
        invocations.append(_invocation(len(invocations) + 1, argv, fields))
        errors += _errors(fields)
    return ParsedLog(tuple(invocations), unusable, tuple(errors))


def _object(line: str) -> dict[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _invocation(sequence: int, argv: list[str], fields: dict[str, object]) -> Invocation:
    tool, time, status, rule = (fields.get(key) for key in ("tool", "ts", "exit", "rule"))
    return Invocation(
        sequence=sequence,
        tool=tool if isinstance(tool, str) else "",
        argv=tuple(argv),
        time=float(time) if _is_time(time) else 0.0,
        exit_status=status if isinstance(status, int) and not isinstance(status, bool) else None,
        answered_by=f"rule {rule}" if isinstance(rule, int) and not isinstance(rule, bool) else "constant",
    )


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LATEST


def _errors(fields: dict[str, object]) -> Iterator[RecorderError]:
    tool = fields.get("tool")
    for key in ("sidecar_error", "rule_error"):
        if fields.get(key) is not None:
            yield RecorderError(tool if isinstance(tool, str) else "", key, _text(fields[key]))


def _text(value: object) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):
        return "a value that is nested too deeply"


def render_log(invocations: Iterable[Invocation]) -> str:
    """Write calls as JSON Lines in pure ASCII.

    `ts` and `end` are in seconds since the epoch; `end` and `exit` are null for a call that did not end. `rule` is
    there when a rule answered.
    """
    return "".join(json.dumps(_fields(call)) + "\n" for call in invocations)


def _fields(call: Invocation) -> dict[str, object]:
    rule = _RULE.fullmatch(call.answered_by)
    return {
        "ts": round(call.time, 3),
        "end": None if call.ended is None else round(call.ended, 3),
        "tool": call.tool,
        "argv": list(call.argv),
        "cwd": call.cwd,
        "exit": call.exit_status,
        "answered_by": call.answered_by,
        **({"rule": int(rule[1])} if rule else {}),
    }


@contextlib.contextmanager
def log_in_workspace(root: Path, log: InvocationLog) -> Iterator[None]:
    """Have `cli_mocks/calls.jsonl` in the workspace `root` for a while; what the agent has there is aside meanwhile.

    No link is followed, and a workspace that is no directory any more gets no log. Nobody else may work in the
    workspace when this begins and ends. Raises JudgingError when the file cannot be put there or taken away.
    """
    if not _is_directory(root):
        yield
        return
    directory, aside = root / LOG_DIRECTORY, _fresh_name(root.parent, "aside")
    with _told("put into the workspace"), _writable(root), _writable(root.parent):
        _move(directory, aside, "what the agent left there cannot be moved aside")
        try:
            directory.mkdir(mode=0o755)
            (directory / LOG_NAME).write_text(render_log(log.invocations), encoding="ascii", newline="\n")
        except OSError:
            _put_back(root, aside)
            raise
    try:
        yield
    finally:
        if _is_directory(root):
            with _told("taken out of the workspace"), _writable(root), _writable(root.parent):
                _put_back(root, aside)


def _put_back(root: Path, aside: Path) -> None:
    directory = root / LOG_DIRECTORY
    _move(directory, _fresh_name(root.parent, "used"), "it cannot be moved away")
    _move(aside, directory, "what the agent left there cannot be put back")


def _fresh_name(parent: Path, purpose: str) -> Path:
    """A name that nobody can have taken."""
    return parent / f".{LOG_DIRECTORY}-{purpose}-{secrets.token_hex(16)}"


def _is_directory(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


@contextlib.contextmanager
def _told(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JudgingError(f"{DEFAULT_LOG} could not be {what}: {error.strerror or error}") from error


def _move(source: Path, target: Path, problem: str) -> None:
    """Rename `source` when it is there. A directory that its owner may not write is moved with its mode kept.

    Raises OSError with `problem` in its text.
    """
    try:
        mode = source.lstat().st_mode
    except FileNotFoundError:
        return
    locked = stat.S_ISDIR(mode) and not mode & stat.S_IWUSR
    try:
        if locked:
            source.chmod(stat.S_IMODE(mode) | stat.S_IWUSR)
        source.rename(target)
        if locked:
            target.chmod(stat.S_IMODE(mode))
    except OSError as error:
        raise OSError(error.errno, f"{problem}: {error.strerror}") from error


@contextlib.contextmanager
def _writable(directory: Path) -> Iterator[None]:
    mode = stat.S_IMODE(directory.stat().st_mode)
    needed = stat.S_IWUSR | stat.S_IXUSR
    if mode & needed == needed:
        yield
        return
    directory.chmod(mode | needed)
    try:
        yield
    finally:
        directory.chmod(mode)
