"""Experiment files: the variants under which tasks are run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from ..errors import TaskFileError
from .agent_models import AGENT_MODELS, AgentConfig, parse_agent
from .base import Finding, StrictModel, problem, raise_findings
from .fields import AtLeastOne, HostPath, NonBlank, PositiveInt, regex_error
from .nearest import hint
from .problems import describe, problem_at, problems_of, shown_path, unreadable
from .sandbox_models import Driver, SandboxConfig, TemplateSource, pick
from .setting_models import CheckerContext, PostRunCommand, PreRunCommand, RunLimits, Simulation
from .yaml_reader import Document, ReadError, read, read_text

_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST_REPEATS = 99


def _kebab(name: str) -> str:
    if not _KEBAB.fullmatch(name):
        raise problem("expected lowercase words joined by '-'")
    return name


def _partial_agent(value: Any, info: ValidationInfo) -> dict[str, Any]:
    """Check a part of an agent block: with its type as a whole, without one only its keys."""
    if not isinstance(value, Mapping):
        raise problem("expected a mapping")
    if value.get("type") is not None:
        _check_whole(value, info)
        return dict(value)
    valid = {name for model in AGENT_MODELS.values() for name in model.model_fields} | {"additional_ignore_patterns"}
    raise_findings("agent", _unknown(value, valid), value)
    return dict(value)


def _check_whole(value: Mapping[str, Any], info: ValidationInfo) -> AgentConfig | None:
    try:
        return parse_agent(value, info)
    except ValidationError as error:
        if all(detail["type"] == "missing" for detail in error.errors(include_url=False)):
            return None
        raise


def _partial_simulation(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise problem("expected a mapping")
    raise_findings("simulation", _unknown(value, set(Simulation.model_fields)), value)
    return dict(value)


def _unknown(value: Mapping[str, Any], valid: set[str]) -> list[Finding]:
    return [Finding((key,), f"unknown key {key!r}{hint(key, valid)}") for key in value if key not in valid]


class PromptMutation(StrictModel):
    """A change of the prompt."""

    type: str


class PromptPrefix(PromptMutation):
    """Text before the prompt."""

    type: Literal["prefix"] = "prefix"
    content: str
    separator: str = "\n\n"


class PromptSuffix(PromptMutation):
    """Text after the prompt."""

    type: Literal["suffix"] = "suffix"
    content: str
    separator: str = "\n\n"


class PromptReplace(PromptMutation):
    """Replacement of a text, or of what a regular expression matches."""

    type: Literal["replace"] = "replace"
    pattern: NonBlank
    replacement: str
    regex: bool = False

    @model_validator(mode="after")
    def _check(self) -> PromptReplace:
        if self.regex and (error := regex_error(self.pattern)):
            raise_findings("PromptReplace", [Finding(("pattern",), error)], self.__dict__)
        return self


class PromptTemplate(PromptMutation):
    """Values for the `{name}` places of the prompt."""

    type: Literal["template"] = "template"
    variables: dict[str, str]


MUTATIONS: Mapping[str, type[StrictModel]] = {
    "prefix": PromptPrefix,
    "suffix": PromptSuffix,
    "replace": PromptReplace,
    "template": PromptTemplate,
}


def _parse_mutation(value: Any, info: ValidationInfo) -> StrictModel:
    if isinstance(value, PromptMutation):
        return value
    return pick(value, MUTATIONS, "prompt mutation").model_validate(value, context=info.context)


Mutation = Annotated[SerializeAsAny[StrictModel], PlainValidator(_parse_mutation)]
Repeats = Annotated[PositiveInt, Field(le=MOST_REPEATS)]


class Layer(StrictModel):
    """What the defaults of an experiment and its variants have in common."""

    repeats: Repeats | None = None
    agent: Annotated[dict[str, Any], PlainValidator(_partial_agent)] | None = None
    checker_context: CheckerContext | None = None
    simulation: Annotated[dict[str, Any], PlainValidator(_partial_simulation)] | None = None
    template_sources: tuple[TemplateSource, ...] | None = None
    prompt_mutations: tuple[Mutation, ...] | None = None
    run_limits: RunLimits | None = None
    driver: Driver | None = None


class ExperimentDefaults(Layer):
    """What holds for every variant and lies below the task's own settings."""

    post_run: tuple[PostRunCommand, ...] = ()
    pre_run: tuple[PreRunCommand, ...] = ()
    sandbox: SandboxConfig | None = None


class Variant(Layer):
    """One arm of an experiment; it lies above the task's own settings."""

    variant_id: Annotated[str, AfterValidator(_kebab)]
    description: str | None = None
    initial_prompt: NonBlank | None = None
    initial_prompt_file: HostPath | None = None

    @model_validator(mode="after")
    def _one_prompt(self) -> Variant:
        names = ("prompt_mutations", "initial_prompt", "initial_prompt_file")
        used = [name for name in names if getattr(self, name) is not None]
        if len(used) > 1:
            raise_findings("Variant", [Finding((used[1],), f"{' and '.join(used)} exclude each other")])
        return self


class Experiment(StrictModel):
    """An experiment file."""

    experiment_id: Annotated[str, AfterValidator(_kebab)]
    description: str = ""
    defaults: ExperimentDefaults | None = None
    variants: Annotated[tuple[Variant, ...], AtLeastOne]

    @model_validator(mode="after")
    def _unique_variants(self) -> Experiment:
        names = [variant.variant_id for variant in self.variants]
        found = [
            Finding(("variants", index, "variant_id"), f"{name!r} is used twice")
            for index, name in enumerate(names)
            if name in names[:index]
        ]
        raise_findings("Experiment", found)
        return self


def load_experiment(path: Path) -> Experiment:
    """Read and check an experiment file. Raises TaskFileError, whatever the file holds."""
    shown = shown_path(path)
    try:
        document = read(read_text(path))
    except ReadError as error:
        raise TaskFileError((unreadable(shown, error),)) from None
    return _validated(shown, document)


def _validated(shown: str, document: Document) -> Experiment:
    if not isinstance(document.data, Mapping):
        message = f"an experiment is a mapping of keys and values; found {describe(document.data)}"
        raise TaskFileError((problem_at(shown, document, (), message),))
    try:
        return Experiment.model_validate(document.data)
    except ValidationError as error:
        raise TaskFileError(problems_of(error, shown, document, Experiment)) from None
