"""Criteria about commands: those that a criterion runs, and those that the agent ran."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import ValidationInfo, model_validator

from .base import Finding, problem, raise_findings
from .cli_models import CliFacets
from .criterion import Criterion, StopEarly
from .fields import (
    Command,
    CommandPattern,
    Count,
    Integer,
    NonBlank,
    PositiveInt,
    PositiveNumber,
    awaits_row,
    regex_error,
)


class RunCommand(Criterion):
    """A shell command of the author's ends and prints as expected. `timeout` is in seconds.

    `read_only` declares that the command writes nothing and reaches no live service. Nothing verifies that; it lets the
    command run for diagnosis after an agent failed, where its result is recorded and never counts.
    """

    type: Literal["run_command"] = "run_command"
    command: Command
    timeout: PositiveNumber = 30
    expected_exit_code: Integer = 0
    expected_stdout: str | None = None
    stdout_match: Literal["exact", "contains", "regex"] = "exact"
    score_from_stdout: bool = False
    read_only: bool = False
    shims: bool = False

    @property
    def evaluable_after_failure(self) -> bool:
        return self.read_only

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


class CommandFacets(CliFacets):
    """A simple command: the program's name, without its directory, and what its arguments must have."""

    tool: NonBlank

    @model_validator(mode="before")
    @classmethod
    def _expect_mapping(cls, value: Any) -> Any:
        if isinstance(value, str):
            words = value.split() or [""]
            raise problem(f"expected a mapping, for instance {{tool: {words[0][:60]!r}}}")
        return value

    @model_validator(mode="after")
    def _check(self) -> Self:
        found = self.facet_findings()
        if "/" in self.tool or any(char.isspace() for char in self.tool):
            found.append(Finding(("tool",), "expected the name of a program, without its directory and arguments"))
        raise_findings("CommandFacets", found, self.__dict__)
        return self


class CommandExecuted(Criterion):
    """The agent ran a matching command often enough. With `max_count` it is met or not, else partly.

    `command` asks for the parts of a command, `command_pattern` for its text.
    """

    type: Literal["command_executed"] = "command_executed"
    needs_trajectory = True
    tool_name: NonBlank | None = None
    command_pattern: CommandPattern | None = None
    command: CommandFacets | None = None
    min_count: Count = 1
    max_count: Count | None = None
    require_success: bool = False
    exclude_pattern: CommandPattern | None = None
    stop_early: StopEarly | None = None

    def findings(self) -> tuple[Finding, ...]:
        found = []
        if self.command is not None and self.command_pattern is not None:
            found.append(Finding(("command",), "command and command_pattern exclude each other"))
        if self.max_count is not None and self.max_count < self.min_count:
            found.append(Finding(("max_count",), f"expected at least min_count ({self.min_count})"))
        return tuple(found)


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

    def expected(self) -> str:
        return "yes" if self.expected_skill == self.skill_name else "no"
