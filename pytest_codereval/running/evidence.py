"""What criteria look at, and the shell that they get, in the sandbox where a trial is judged."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..criteria.contract import Evidence
from ..criteria.judges.desk import JudgeDesk
from ..recorder.invocation import InvocationLog
from ..sandbox.protocol import ProcessResult, Sandbox
from ..sandbox.workspace import Workspace
from ..trajectory.model import Trajectory
from . import launcher

if TYPE_CHECKING:
    from ..task.models import Task


def evidence_in(
    sandbox: Sandbox,
    task: Task,
    trajectory: Trajectory | None,
    log: InvocationLog,
    environment: Mapping[str, str] = MappingProxyType({}),
    reference: Workspace | None = None,
    desk: JudgeDesk | None = None,
) -> Evidence:
    """The evidence of a trial. Its shell works in GRADE with `environment`, as the grading material reveals it."""
    return Evidence(
        workspace=sandbox.files,
        trajectory=trajectory,
        invocations=log,
        shell=functools.partial(_shell, sandbox, environment),
        reference=reference,
        desk=desk,
        cli_patterns={c.name: c for c in task.success_criteria if c.type == "cli_called" and c.name},
    )


def _shell(
    sandbox: Sandbox, environment: Mapping[str, str], command: str, *, timeout: float, shims: bool = False
) -> ProcessResult:
    extra = {**environment, **(sandbox.env_with_shims() if shims else {})}
    return launcher.grade(sandbox, command, timeout=timeout, env=extra)
