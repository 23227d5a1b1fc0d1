"""The task: the top level of a task file. All models of the format can be had from here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, field_validator, model_validator

from .agent_models import (
    AGENT_MODELS,
    Agent,
    AgentConfig,
    ScriptAgent,
    merging_of_all,
)
from .base import StrictModel, problem, raise_findings
from .cli_models import DEFAULT_LOG, CliCalled, CliMatch, CliPattern, FlagPredicate, TextPredicate
from .command_models import CommandExecuted, CommandFacets, CommandsEfficiency, RunCommand, SkillTriggered
from .criteria_models import CRITERION_MODELS, AnyCriterion
from .criterion import Criterion, StopEarly
from .fields import HostPath, NonBlank, PositiveInt
from .file_models import (
    ClassificationMatch,
    FileCheck,
    FileContains,
    FileExists,
    FileMatchesRegex,
    FilePattern,
    JsonAssertion,
    JsonCheck,
    ReferenceComparison,
)
from .judge_models import AgentJudge, LlmJudge
from .layering.merging import Merging
from .repeat_models import Repeats
from .sandbox_models import (
    CliResponse,
    CopyEffect,
    DockerConfig,
    NodeConfig,
    PythonConfig,
    RecordedTool,
    ReplyModel,
    RepoSource,
    ResourceLimits,
    SandboxConfig,
    StarterFile,
    StarterFiles,
    TemplateDir,
    WriteEffect,
)
from .script_models import ScriptStep, ToolStep, WriteStep
from .setting_models import (
    ApiRoute,
    CheckerContext,
    Dataset,
    PostRunCommand,
    PreRunCommand,
    Reference,
    RunLimits,
    Simulation,
)
from .task_rules import task_findings

__all__ = [
    "AGENT_MODELS",
    "CRITERION_MODELS",
    "DEFAULT_LOG",
    "AgentConfig",
    "AgentJudge",
    "ApiRoute",
    "CheckerContext",
    "ClassificationMatch",
    "CliCalled",
    "CliMatch",
    "CliPattern",
    "CliResponse",
    "CommandExecuted",
    "CommandFacets",
    "CommandsEfficiency",
    "CopyEffect",
    "Criterion",
    "Dataset",
    "DockerConfig",
    "FileCheck",
    "FileContains",
    "FileExists",
    "FileMatchesRegex",
    "FilePattern",
    "FlagPredicate",
    "JsonAssertion",
    "JsonCheck",
    "LlmJudge",
    "NodeConfig",
    "PostRunCommand",
    "PreRunCommand",
    "PythonConfig",
    "RecordedTool",
    "Reference",
    "ReferenceComparison",
    "Repeats",
    "ReplyModel",
    "RepoSource",
    "ResourceLimits",
    "RunCommand",
    "RunLimits",
    "SandboxConfig",
    "ScriptAgent",
    "ScriptStep",
    "Simulation",
    "SkillTriggered",
    "StarterFile",
    "StarterFiles",
    "StopEarly",
    "Task",
    "TemplateDir",
    "TextPredicate",
    "ToolStep",
    "WriteEffect",
    "WriteStep",
]

STALE_KEYS = ("max_iterations", "llm_reviewer")
"""Top-level keys of older releases that have no meaning any more."""
_TAG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(:[a-z0-9]+(-[a-z0-9]+)*)?")
_BOOLEAN_WORDS = frozenset(["true", "false", "yes", "no", "on", "off", "y", "n"])


def _tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise problem(f"the tag {tag!r}: expected lowercase words joined by '-', or 'key:value' of such words")
    return tags


class Task(StrictModel):
    """One task file: what an agent is asked to do and how the result is judged. `STALE_KEYS` are dropped."""

    merging = Merging(
        replace=(
            *("task_id", "description", "initial_prompt", "initial_prompt_file", "follow_up_prompts", "tags", "skip"),
            *("success_criteria", "reference", "expected_commands", "dataset", "suite_id", "row_id", "repeats"),
            "stop_early",
        ),
        deep={
            "agent": merging_of_all(),
            "sandbox": SandboxConfig.merging,
            "checker_context": CheckerContext.merging,
            "run_limits": RunLimits.merging,
            "simulation": Simulation.merging,
        },
        append=("pre_run",),
        prepend=("post_run",),
        exclusive=(("initial_prompt", "initial_prompt_file"),),
    )

    task_id: str
    description: str
    initial_prompt: str | None = None
    initial_prompt_file: HostPath | None = None
    follow_up_prompts: tuple[NonBlank, ...] = ()
    tags: Annotated[tuple[str, ...], AfterValidator(_tags)] = ()
    skip: bool | str = False
    agent: Agent | None = None
    sandbox: SandboxConfig = Field(default_factory=SandboxConfig)
    success_criteria: tuple[AnyCriterion, ...]
    checker_context: CheckerContext | None = None
    run_limits: RunLimits | None = None
    stop_early: bool = False
    reference: Reference | None = None
    expected_commands: PositiveInt | None = None
    pre_run: tuple[PreRunCommand, ...] = ()
    post_run: tuple[PostRunCommand, ...] = ()
    dataset: Dataset | None = None
    suite_id: NonBlank | None = None
    row_id: NonBlank | None = None
    simulation: Simulation | None = None
    repeats: Repeats | None = None

    @model_validator(mode="before")
    @classmethod
    def _drop_stale_keys(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and any(key in value for key in STALE_KEYS):
            return {key: item for key, item in value.items() if key not in STALE_KEYS}
        return value

    @field_validator("skip", mode="before")
    @classmethod
    def _reason_or_switch(cls, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        if not isinstance(value, str) or not value.strip():
            raise problem("expected true, false or a reason as text")
        if value.strip().casefold() in _BOOLEAN_WORDS:
            raise problem(f"{value!r} in quotes would be a reason; write it without quotes")
        return value

    @model_validator(mode="after")
    def _check(self) -> Task:
        raise_findings("Task", task_findings(self), self.__dict__)
        return self
