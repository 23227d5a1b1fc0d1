"""Building the evidence that a vector describes."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_codereval.criteria.contract import Evidence
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.sandbox.workspace import Unreadable, Workspace
from pytest_codereval.trajectory.model import ToolCall, Trajectory

from .outcome import Vector

DEFAULT_LOG = "cli_mocks/calls.jsonl"
_GLOB = frozenset("*?[")


class FailingWorkspace(Workspace):
    """A workspace of which the operating system lets nothing be read: `Workspace` tells that as Unreadable."""

    def __init__(self, root: Path, kind: str) -> None:
        super().__init__(root)
        self._kind = kind

    def resolve(self, path: str) -> Path:
        raise self._error(path)

    def resolve_one(self, path: str) -> str:
        raise self._error(path)

    def _error(self, path: str) -> Exception:
        if is_system_error(self._kind):
            return Unreadable(f"{path}: {self._kind}")
        return RuntimeError(self._kind)


def is_system_error(name: str) -> bool:
    """Tell whether an exception of this name is one that the operating system gives."""
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, OSError)


def evidence_of(vector: Vector, root: Path) -> Evidence:
    """Lay out the vector's files below `root` and return all that a criterion may look at."""
    _write_files(vector, root)
    raises = vector.get("read_raises")
    return Evidence(
        workspace=FailingWorkspace(root, raises[0][2]) if raises else Workspace(root),
        trajectory=_trajectory(vector.get("turns")) if "turns" in vector else None,
        invocations=InvocationLog(),
        shell=_Shell(vector.get("command_result", {})),
    )


def _write_files(vector: Vector, root: Path) -> None:
    for path, content in vector.get("files", {}).items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict) and "symlink" in content:
            target.symlink_to(content["symlink"])
        else:
            target.write_bytes(_bytes(content))
    asked = vector["criterion"].get("path")
    if "files" in vector and asked and not _GLOB & set(asked) and not vector.get("read_raises"):
        _write_unlisted(vector, root / asked)
    if "log" in vector:
        _write_log(vector, root)


def _write_unlisted(vector: Vector, target: Path) -> None:
    """A file that was asked for, and is neither listed nor missing, was there; its content was not recorded."""
    if vector["criterion"]["path"] not in vector.get("missing", ()) and not os.path.lexists(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()


def _write_log(vector: Vector, root: Path) -> None:
    log = root / vector["criterion"].get("log", DEFAULT_LOG)
    log.parent.mkdir(parents=True, exist_ok=True)
    if vector["log"] is not None:
        log.write_bytes(_bytes(vector["log"]))
    if vector.get("log_error_file") is not None:
        log.with_name(f"{log.name}.error").write_text(vector["log_error_file"], encoding="utf-8")


def _bytes(content: str | Mapping[str, str]) -> bytes:
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else bytes.fromhex(content["hex"])


def _trajectory(turns: list[list[Mapping[str, Any]]] | None) -> Trajectory | None:
    if turns is None:
        return None
    calls = [call for turn in turns for call in turn]
    events = tuple(
        ToolCall(
            id=str(number),
            name=call["tool"],
            parameters=call.get("parameters") or {},
            status=call["status"] if call.get("status") in ("success", "error") else "unknown",
        )
        for number, call in enumerate(calls)
    )
    return Trajectory(events, turns=len(turns))


class _Shell:
    """Answers any command with the recorded result."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self._result = result

    def __call__(self, command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        status = self._result["exit"]
        return ProcessResult(
            exit_status=status if status >= 0 else 128 - status,
            stdout=self._result["stdout"].encode("utf-8", "surrogateescape"),
            stderr=self._result["stderr"].encode("utf-8", "surrogateescape"),
            timed_out=status == -1,
        )
