"""Reading the record of a trial for its replay: the events of its last attempt, prompt by prompt."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import AgentError, Cause, TrialError
from ...sandbox.host_path import host_path
from ...trajectory.model import Event, Message, ModelCall, ToolCall

if TYPE_CHECKING:
    from ...sandbox.protocol import Sandbox

FORMAT = "codereval-trial"
VERSION = 1
LARGEST = 1_000_000_000
"""Bytes."""

_STATES = ("success", "error", "unknown")
_KEEPS_DIRECTORY = ("anthropic", "claude-code")
_ROOT = re.compile(r"(?:/[\w.+=@-]+)*?/cev-\d+/[\w.-]+/t\d+(?![\w.-])")


@dataclasses.dataclass(frozen=True)
class Recorded:
    """`turns` are what followed each prompt. `root` is where the recorded sandbox lay, None where nothing names it.

    `keeps_directory` tells that the recorded agent's shell commands each began in the directory of the one before.
    """

    turns: tuple[tuple[Event, ...], ...]
    root: str | None
    keeps_directory: bool


def read_recorded(text: str, task_folder: Path) -> Recorded:
    """Read the record that `agent.record` names, the file or its folder. Raises AgentError(CONFIGURATION)."""
    try:
        path = host_path(text, task_folder, "agent.record")
    except TrialError as error:
        raise AgentError(Cause.CONFIGURATION, str(error)) from None
    path = path / "record.json" if path.is_dir() else path
    try:
        if path.stat().st_size > LARGEST:
            raise _mistake(path, f"larger than {LARGEST} bytes")
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _mistake(path, f"not a readable trial record: {error}") from None
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise _mistake(path, "not a trial record")
    if record.get("version") != VERSION:
        raise _mistake(path, f"record version {record.get('version')!r}, expected {VERSION}")
    trajectory = record.get("trajectory")
    if not isinstance(trajectory, dict) or not isinstance(trajectory.get("events"), list):
        raise _mistake(path, f"it has no trajectory (its agent: {record.get('agent')})")
    events = list(_events(path, trajectory["events"], trajectory.get("attempt", 1)))
    return Recorded(tuple(_turns(events)), _root_of(events), record.get("agent") in _KEEPS_DIRECTORY)


def _mistake(path: Path, message: str) -> AgentError:
    return AgentError(Cause.CONFIGURATION, f"agent.record: {path}: {message}")


def _events(path: Path, told: list[Any], attempt: object) -> Iterator[Event]:
    """The events of one attempt, each where it was first told and as it was last told."""
    found: dict[object, Event] = {}
    for number, data in enumerate(told, 1):
        if not isinstance(data, dict) or data.get("attempt", 1) != attempt:
            continue
        try:
            event = _event(data)
        except (TypeError, ValueError) as error:
            raise _mistake(path, f"event {number}: {error}") from None
        if event is not None:
            found[number if isinstance(event, Message) else (type(event), event.id)] = event
    yield from found.values()


def _event(data: Mapping[str, Any]) -> Event | None:
    kind = data.get("kind")
    if kind == "Message":
        role = data.get("role")
        if role not in ("user", "assistant"):
            raise ValueError(f"a message of {role!r}; expected user or assistant")
        return Message(role, _text(data, "text"))
    parent = data.get("parent_id")
    if kind == "ModelCall":
        return ModelCall(_text(data, "id"), None, parent_id=parent if isinstance(parent, str) else None)
    if kind != "ToolCall":
        return None
    parameters, status, exit_status = data.get("parameters"), data.get("status"), data.get("exit_status")
    if not isinstance(parameters, dict):
        raise ValueError("a tool call without a mapping of parameters")
    if status not in _STATES:
        raise ValueError(f"a tool call with the status {status!r}; expected {', '.join(_STATES)}")
    return ToolCall(
        _text(data, "id"),
        _text(data, "name"),
        parameters,
        status,
        _text(data, "output"),
        exit_status if isinstance(exit_status, int) else None,
        ended=0.0 if isinstance(data.get("ended"), int | float) else None,
        parent_id=parent if isinstance(parent, str) else None,
    )


def _text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key}: expected text, found {type(value).__name__}")
    return value


def _turns(events: list[Event]) -> Iterator[tuple[Event, ...]]:
    turn: list[Event] = []
    begun = False
    for event in events:
        if isinstance(event, Message) and event.role == "user":
            if begun:
                yield tuple(turn)
                turn = []
            begun = True
        else:
            turn.append(event)
    yield tuple(turn)


def _root_of(events: list[Event]) -> str | None:
    """Where the sandbox lay, by what most of the calls name."""
    found: Counter[str] = Counter()
    for event in events:
        if isinstance(event, ToolCall):
            found.update(_ROOT.findall(json.dumps(event.parameters, ensure_ascii=False)))
    return found.most_common(1)[0][0] if found else None


class Paths:
    """Puts the places of the new sandbox where those of the recorded one stood."""

    def __init__(self, recorded: Recorded, sandbox: Sandbox) -> None:
        self._moved: list[tuple[re.Pattern[str], str]] = []
        if recorded.root is not None:
            pairs = [
                (f"{recorded.root}/workspace", sandbox.workspace),
                (f"{recorded.root}/home", sandbox.home),
                (recorded.root, sandbox.workspace.parent),
            ]
            self._moved = [(re.compile(re.escape(old) + r"(?![\w.-])"), str(new)) for old, new in pairs]

    def renewed(self, value: Any) -> Any:
        """`value` with the paths in all its texts replaced."""
        if isinstance(value, str):
            for old, new in self._moved:
                value = old.sub(new.replace("\\", r"\\"), value)
            return value
        if isinstance(value, Mapping):
            return {key: self.renewed(item) for key, item in value.items()}
        return [self.renewed(item) for item in value] if isinstance(value, list) else value
