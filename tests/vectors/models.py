"""The models of this package by the names that vectors use."""

from __future__ import annotations

import importlib
from typing import Any

from pytest_codereval.criteria.registry import use_kinds
from pytest_codereval.criteria.vendor import KINDS

use_kinds(KINDS)

_MODULES = (
    *("task.models", "task.file_models", "task.command_models", "task.sandbox_models"),
    *("task.setting_models", "task.agent_models", "criteria.vendor"),
)
_RENAMED = {
    "TaskDefinition": "Task",
    "RecordedCli": "RecordedTool",
    "TemplateDirSource": "TemplateDir",
    "StarterFilesSource": "StarterFiles",
    "JMESPathAssertion": "JsonAssertion",
    "StopEarlyPolicy": "StopEarly",
    "LLMJudgeCriterion": "LlmJudge",
    "RegexPattern": "FilePattern",
}


def model_named(name: str) -> Any:
    """Return the pydantic model for a vector's model name or a criterion's type. Raises KeyError for an unknown one."""
    wanted = _RENAMED.get(name, name)
    names = {wanted, wanted.removesuffix("Criterion"), "".join(part.capitalize() for part in wanted.split("_"))}
    for module_name in _MODULES:
        module = importlib.import_module(f"pytest_codereval.{module_name}")
        for candidate in names:
            if hasattr(module, candidate):
                return getattr(module, candidate)
    raise KeyError(f"no model is named {name!r}")
