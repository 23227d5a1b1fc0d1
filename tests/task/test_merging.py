"""Every field of the format says what becomes of it when several layers give it."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, Field

from pytest_codereval.task.agent_models import AGENT_MODELS, AgentConfig
from pytest_codereval.task.base import StrictModel
from pytest_codereval.task.criteria_models import CRITERION_MODELS
from pytest_codereval.task.experiment_models import MUTATIONS, Experiment, ExperimentDefaults, Variant
from pytest_codereval.task.layering.merging import FREE, WHOLE, Merging, Strategy
from pytest_codereval.task.models import Task
from pytest_codereval.task.problems import models_in
from pytest_codereval.task.sandbox_models import TEMPLATE_SOURCES

LISTS = {
    "Task.pre_run": Strategy.APPEND,
    "Task.post_run": Strategy.PREPEND,
    "SandboxConfig.template_sources": Strategy.OVERLAY,
    "DockerConfig.env_passthrough_extra": Strategy.APPEND,
}
"""The lists that layers add to; all others are replaced."""

EXCLUSIVE = {
    "Task": (("initial_prompt", "initial_prompt_file"),),
    "AgentConfig": (("system_prompt", "system_prompt_file"),),
}


def _reachable() -> Iterator[type[BaseModel]]:
    pending: list[type[BaseModel]] = [Task, Experiment, ExperimentDefaults, Variant]
    pending += [*AGENT_MODELS.values(), *CRITERION_MODELS.values(), *MUTATIONS.values(), *TEMPLATE_SOURCES.values()]
    seen: set[type[BaseModel]] = set()
    while pending:
        model = pending.pop()
        if model in seen or model is StrictModel:
            continue
        seen.add(model)
        yield model
        for field in model.model_fields.values():
            pending += models_in(field.annotation)
            for extra in field.metadata:
                pending += models_in(getattr(extra, "json_schema_input_type", None))


MODELS = sorted(_reachable(), key=lambda model: model.__name__)
IN_PARTS = [model for model in MODELS if issubclass(model, StrictModel) and model.merging is not WHOLE]


def test_the_walk_finds_models_at_every_depth() -> None:
    names = {model.__name__ for model in MODELS}
    assert {"Task", "ApiRoute", "DockerBuild", "McpServer", "StopEarly", "CliMatch", "StarterFile", "Repeats"} <= names
    assert len(IN_PARTS) > 15


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_model_declares_each_of_its_fields_once(model: type[BaseModel]) -> None:
    assert issubclass(model, StrictModel)
    merging = model.merging
    assert isinstance(merging, Merging), f"{model.__name__} does not say how layers merge it: WholeModel, or `merging`"
    if merging is not WHOLE:
        assert sorted(merging.fields) == sorted(model.model_fields)


@pytest.mark.parametrize("model", IN_PARTS, ids=lambda model: model.__name__)
def test_what_is_merged_in_depth_leads_to_what_is_there(model: type[StrictModel]) -> None:
    assert model.merging is not None
    for name, inside in model.merging.deep.items():
        models = models_in(model.model_fields[name].annotation)
        if name == "agent":
            fields = {field for each in AGENT_MODELS.values() for field in each.model_fields}
        elif not models or inside is FREE or "dict[" in str(model.model_fields[name].annotation):
            assert "dict[" in str(model.model_fields[name].annotation), name
            continue
        else:
            fields = set(models[0].model_fields)
        assert inside is not None
        assert set(inside.fields) == fields, name


@pytest.mark.parametrize("model", IN_PARTS, ids=lambda model: model.__name__)
def test_lists_are_replaced_but_those_that_grow(model: type[StrictModel]) -> None:
    assert model.merging is not None
    for name in model.model_fields:
        expected = LISTS.get(f"{model.__name__}.{name}")
        found = model.merging.strategy(name)
        if expected is not None:
            assert found is expected
        elif name not in model.merging.deep:
            assert found is Strategy.REPLACE, name


def test_the_groups_of_which_one_holds() -> None:
    found = {model.__name__: model.merging.exclusive for model in IN_PARTS if model.merging and model.merging.exclusive}
    assert {name: found[name] for name in EXCLUSIVE} == EXCLUSIVE
    assert {name for name in found if name not in EXCLUSIVE} <= {model.__name__ for model in AGENT_MODELS.values()}


def test_a_field_that_a_plugin_adds_merges_by_its_type() -> None:
    class Mine(AgentConfig):
        type: typing.Literal["mine"] = "mine"
        extra: dict[str, Any] = Field(default_factory=dict)

    assert Mine.merging.strategy("extra") is Strategy.DEEP
    assert Mine.merging.inside("extra") is FREE
