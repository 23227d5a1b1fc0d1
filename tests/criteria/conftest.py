"""Evidence over a real directory."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.criteria.contract import Evidence, Judgement
from pytest_codereval.criteria.registry import checker
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.sandbox.protocol import DEFAULT_OUTPUT_LIMIT, ProcessResult
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.trajectory.model import ToolCall, Trajectory

from .build import criterion


@dataclasses.dataclass(frozen=True)
class Shell:
    """Runs commands of criteria in a directory, as a sandbox does."""

    root: Path

    def __call__(self, command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
        try:
            done = subprocess.run(
                ["sh", "-c", command], cwd=self.root, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout
            )
        except subprocess.TimeoutExpired as error:
            return ProcessResult(137, error.stdout or b"", error.stderr or b"", timed_out=True)
        cut = max(len(done.stdout), len(done.stderr)) > DEFAULT_OUTPUT_LIMIT
        limit = slice(DEFAULT_OUTPUT_LIMIT)
        status = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return ProcessResult(status, done.stdout[limit], done.stderr[limit], truncated=cut)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path.resolve()


Judge = Callable[..., Judgement]


@pytest.fixture
def judge(workspace: Path) -> Judge:
    """Judge a criterion, given by its fields; `calls` are the agent's, `reference` the files of the reference."""

    def run(
        *,
        calls: Sequence[ToolCall] | None = (),
        reference: Mapping[str, str] | None = None,
        result: ProcessResult | None = None,
        **fields: Any,
    ) -> Judgement:
        staged = None
        if reference is not None:
            root = workspace.parent / "reference"
            root.mkdir()
            for name, text in reference.items():
                (root / name).write_text(text, encoding="utf-8")
            staged = Workspace(root)
        model = criterion(**fields)
        evidence = Evidence(
            workspace=Workspace(workspace),
            trajectory=None if calls is None else Trajectory(tuple(calls)),
            invocations=InvocationLog(),
            shell=(lambda command, *, timeout, shims=False: result) if result else Shell(workspace),
            reference=staged,
        )
        return checker(model.type)(model, evidence)

    return run
