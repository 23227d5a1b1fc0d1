"""docs/format.md names every key of the format."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pytest_codereval.task import (
    cli_models,
    command_models,
    experiment_models,
    judge_models,
    option_models,
    reply_models,
    sandbox_models,
    setting_models,
)
from pytest_codereval.task.agent_models import AGENT_MODELS, Plugin
from pytest_codereval.task.base import StrictModel
from pytest_codereval.task.models import CRITERION_MODELS, FilePattern, JsonAssertion, StopEarly, Task
from pytest_codereval.task.script_models import ScriptStep, ToolStep, WriteStep

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "format.md").read_text(encoding="utf-8")
MODELS: list[type[BaseModel]] = [Task, FilePattern, JsonAssertion, StopEarly]
MODELS += [*CRITERION_MODELS.values(), *AGENT_MODELS.values(), Plugin, ScriptStep, ToolStep, WriteStep]
NEW = (cli_models, command_models, option_models, reply_models)
for module in (sandbox_models, setting_models, judge_models, experiment_models, *NEW):
    found: list[Any] = [item for item in vars(module).values() if isinstance(item, type)]
    MODELS += [item for item in found if issubclass(item, BaseModel)]


@pytest.mark.parametrize("model", sorted(set(MODELS), key=str))
def test_every_key_is_on_the_page(model: type[BaseModel]) -> None:
    words = set(re.findall(r"[a-z][a-z0-9_]*", PAGE))
    shared_by_judges = {"include_reference", "include_agent_output", "include_tool_calls", "include_dialog"}
    keys = model.keys() if issubclass(model, StrictModel) else model.model_fields
    assert set(keys) - shared_by_judges <= words


@pytest.mark.parametrize("kind", sorted(CRITERION_MODELS))
def test_every_criterion_has_its_section(kind: str) -> None:
    assert f"\n### {kind}\n" in PAGE


@pytest.mark.parametrize("kind", sorted(AGENT_MODELS))
def test_every_agent_is_named(kind: str) -> None:
    assert f"`{kind}`" in PAGE
