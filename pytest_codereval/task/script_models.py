"""The steps of an agent whose work is written in the task."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from .base import Finding, WholeModel, problem, raise_findings
from .fields import Command, HostPath, NonBlank, PositiveNumber, Weight


def _only_true(value: Any) -> Any:
    if value is not True:
        raise problem("expected true")
    return value


class WriteStep(WholeModel):
    """Write a file; a relative path starts in the workspace."""

    path: HostPath
    content: str


class ToolStep(WholeModel):
    """A tool call that is only told, not done."""

    name: NonBlank
    parameters: dict[str, Any] = Field(default_factory=dict)
    status: Literal["success", "error", "unknown"] = "success"
    output: str = ""


class ScriptStep(WholeModel):
    """One step of a script agent: exactly one of its keys; `timeout` (seconds) goes with `bash`, `sleep` is seconds.

    `listen` ends the script's turn: the steps behind it wait for the next prompt.
    """

    kinds: ClassVar[tuple[str, ...]] = ("bash", "write", "tool", "say", "sleep", "listen", "crash")

    bash: Command | None = None
    timeout: PositiveNumber | None = None
    write: WriteStep | None = None
    tool: ToolStep | None = None
    say: str | None = None
    sleep: Weight | None = None
    listen: Annotated[Literal[True], BeforeValidator(_only_true)] | None = None
    crash: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> ScriptStep:
        used = [kind for kind in self.kinds if getattr(self, kind) is not None]
        found = []
        if len(used) != 1:
            given = " and ".join(used) or "none"
            found.append(Finding((), f"a step has exactly one of {', '.join(self.kinds)}; found {given}"))
        elif self.timeout is not None and self.bash is None:
            found.append(Finding(("timeout",), "timeout belongs to bash"))
        raise_findings("ScriptStep", found)
        return self

    @property
    def kind(self) -> str:
        """Which of the keys this step has."""
        return next(kind for kind in self.kinds if getattr(self, kind) is not None)
