"""Criteria about commands: those that a criterion runs, and those that the agent ran."""

from __future__ import annotations

from typing import Literal

from pydantic import ValidationInfo, model_validator

from .base import Finding, raise_findings
from .criterion import Criterion, StopEarly
from .fields import (
    Command,
    CommandPattern,
    Count,
    Integer,
    NonBlank,
    Number,
    PositiveInt,
    PositiveNumber,
    awaits_row,
    regex_error,
)


class RunCommand(Criterion):
    """A shell command of the author's ends and prints as expected. `timeout` is in seconds."""

    type: Literal["run_command"] = "run_command"
    command: Command
    timeout: PositiveNumber = 30
    expected_exit_code: Integer = 0
    expected_stdout: str | None = None
    stdout_match: Literal["exact", "contains", "regex"] = "exact"
    score_from_stdout: bool = False
    read_only: bool = False
    shims: bool = False

    @model_validator(mode="after")
    def _check_stdout(self, info: ValidationInfo) -> RunCommand:
        raise_findings("RunCommand", self._stdout_findings(info), self.__dict__)
        return self

    def _stdout_findings(self, info: ValidationInfo) -> list[Finding]:
        found = []
        if self.score_from_stdout and self.expected_stdout is not None:
            found.append(Finding(("expected_stdout",), "score_from_stdout and expected_stdout exclude each other"))
        if self.stdout_match == "regex" and self.expected_stdout is not None:
            error = None if awaits_row(self.expected_stdout, info) else regex_error(self.expected_stdout)
            if error:
                found.append(Finding(("expected_stdout",), error))
        return found


class CommandExecuted(Criterion):
    """The agent ran a matching command often enough. With `max_count` it is met or not, else partly."""

    type: Literal["command_executed"] = "command_executed"
    needs_trajectory = True
    tool_name: NonBlank | None = None
    command_pattern: CommandPattern | None = None
    min_count: Count = 1
    max_count: Count | None = None
    require_success: bool = False
    exclude_pattern: CommandPattern | None = None
    stop_early: StopEarly | None = None

    def findings(self) -> tuple[Finding, ...]:
        if self.max_count is not None and self.max_count < self.min_count:
            return (Finding(("max_count",), f"expected at least min_count ({self.min_count})"),)
        return ()


class CommandsEfficiency(Criterion):
    """The agent needed few tool calls: score is expected / max(actual, expected)."""

    type: Literal["commands_efficiency"] = "commands_efficiency"
    needs_trajectory = True
    expected_commands: PositiveInt


class SkillTriggered(Criterion):
    """The agent used the skill exactly when it is the expected one; `expected_skill: ""` means that none is."""

    type: Literal["skill_triggered"] = "skill_triggered"
    needs_trajectory = True
    skill_name: NonBlank
    expected_skill: str
    stop_early: StopEarly | None = None

    def labels(self) -> frozenset[str]:
        return frozenset(("yes", "no"))


class UipathEval(Criterion):
    """Metrics of `uv run uipath eval` reach their thresholds; the score is the share that does."""

    type: Literal["uipath_eval"] = "uipath_eval"
    agent_name: NonBlank
    eval_set: NonBlank
    thresholds: dict[str, Number]
