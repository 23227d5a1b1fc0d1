"""JSON Schema (draft 2020-12) of the files that authors write, made from the models, those of plugins among them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import AliasChoices, BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from .agent_models import AgentConfig, all_models, parse_agent, parse_judge_agent
from .criteria_models import CRITERION_MODELS, LEGACY_GUARD, parse_criterion
from .experiment_models import Experiment, ExperimentDefaults, partial_agent, partial_simulation
from .models import STALE_KEYS, Task
from .setting_models import Simulation

DIALECT = "https://json-schema.org/draft/2020-12/schema"

ROOTS: Mapping[str, type[BaseModel]] = {"task": Task, "experiment": Experiment, "codereval": ExperimentDefaults}
"""The kinds of files and the model of each."""


def schema_of(kind: str) -> dict[str, Any]:
    """Return the schema of a kind of files, one of `ROOTS`.

    It refuses unknown keys and values of a wrong type. What a file must hold beyond that, such as that two keys exclude
    each other, is told when it is loaded.
    """
    schema = ROOTS[kind].model_json_schema(schema_generator=_Generator)
    return {"$schema": DIALECT, **_with_bounds(schema), "title": f"pytest-codereval {kind}"}


_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}


def _with_bounds(schema: Any) -> Any:
    """The schema with bounds in the words of JSON Schema; pydantic keeps its own behind a validator of ours."""
    if isinstance(schema, list):
        return [_with_bounds(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        _BOUNDS.get(key, key) if isinstance(value, int | float) else key: _with_bounds(value)
        for key, value in schema.items()
    }


class _Generator(GenerateJsonSchema):
    """Knows the values that are read by the key `type`, and spellings that the models accept."""

    def function_plain_schema(self, schema: Any) -> JsonSchemaValue:
        """A value that a function of ours reads."""
        build = _READ_BY_TYPE.get(schema["function"]["function"])
        return build(self) if build is not None else super().function_plain_schema(schema)

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """A model, with every spelling of its keys."""
        made = super().model_schema(schema)
        model = schema["cls"]
        for field in model.model_fields.values():
            if isinstance(field.validation_alias, AliasChoices):
                first, *others = field.validation_alias.choices
                for other in others:
                    made["properties"][other] = made["properties"][first]
        if model is Task:
            for key in STALE_KEYS:
                made["properties"][key] = {"deprecated": True, "description": "No longer used; delete it."}
        return made

    def field_title_should_be_set(self, schema: Any) -> bool:
        """A title would only repeat the key."""
        return False

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        """Values of a plugin that JSON Schema cannot describe may be anything."""
        return {}

    def of(self, model: type[BaseModel]) -> JsonSchemaValue:
        """The schema of a model, as a reference."""
        model.model_rebuild()
        return self.generate_inner(model.__pydantic_core_schema__)


def _criterion(generator: _Generator) -> JsonSchemaValue:
    models: dict[str, JsonSchemaValue] = {name: generator.of(model) for name, model in CRITERION_MODELS.items()}
    guard = copy.deepcopy(generator.get_schema_from_definitions(_reference(models["command_executed"])) or {})
    guard["properties"]["type"] = {"const": LEGACY_GUARD, "deprecated": True}
    return _by_type({**models, LEGACY_GUARD: guard}, {"required": ["type", "description"]})


def _reference(schema: JsonSchemaValue) -> Any:
    return schema["$ref"]


def _agent(generator: _Generator) -> JsonSchemaValue:
    models = {name: generator.of(model) for name, model in all_models().items()}
    return _by_type(models, {}, otherwise=generator.of(AgentConfig))


def _partial_agent(generator: _Generator) -> JsonSchemaValue:
    return _any_part(generator, [AgentConfig, *all_models().values()])


def _partial_simulation(generator: _Generator) -> JsonSchemaValue:
    return _any_part(generator, [Simulation])


def _any_part(generator: _Generator, models: list[type[BaseModel]]) -> JsonSchemaValue:
    """A mapping with any of the keys of these models."""
    found: dict[str, list[JsonSchemaValue]] = {}
    for model in models:
        whole = generator.get_schema_from_definitions(_reference(generator.of(model))) or {}
        for key, schema in whole.get("properties", {}).items():
            if schema not in found.setdefault(key, []):
                found[key].append(schema)
    properties = {key: ways[0] if len(ways) == 1 else {"anyOf": ways} for key, ways in found.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _by_type(
    models: Mapping[str, JsonSchemaValue], more: JsonSchemaValue, otherwise: JsonSchemaValue | None = None
) -> JsonSchemaValue:
    """A mapping whose key `type` says which of the schemas holds; without it `otherwise` does."""
    cases: list[JsonSchemaValue] = [
        {"if": {"properties": {"type": {"const": name}}, "required": ["type"]}, "then": schema}
        for name, schema in models.items()
    ]
    if otherwise is not None:
        cases.append({"if": {"not": {"required": ["type"]}}, "then": otherwise})
    return {"type": "object", "properties": {"type": {"enum": list(models)}}, "allOf": cases, **more}


_READ_BY_TYPE: Mapping[object, Callable[[_Generator], JsonSchemaValue]] = {
    parse_criterion: _criterion,
    parse_agent: _agent,
    parse_judge_agent: _agent,
    partial_agent: _partial_agent,
    partial_simulation: _partial_simulation,
}
