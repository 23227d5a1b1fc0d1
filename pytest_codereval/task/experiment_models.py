"""Experiment files: the variants under which tasks are run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from ..errors import TaskFileError
from .agent_models import AgentConfig, all_models, parse_agent
from .base import Finding, StrictModel, WholeModel, problem, raise_findings
from .fields import AtLeastOne, HostPath, NonBlank, PositiveInt, regex_error
from .nearest import hint
from .problems import describe, message_of, problem_at, problems_of, shown_path, unreadable
from .sandbox_models import Driver, SandboxConfig, TemplateSource, pick
from .setting_models import CheckerContext, PostRunCommand, PreRunCommand, RunLimits, Simulation
from .yaml_reader import Document, ReadError, read, read_text

_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MOST_REPEATS = 99
_ABOUT_OTHERS = "replace needs"
"""How the message about a key begins that is only wrong for want of another key."""


def _kebab(name: str) -> str:
    if not _KEBAB.fullmatch(name):
        raise problem("expected lowercase words joined by '-'")
    return name


def partial_agent(value: Any, info: ValidationInfo) -> dict[str, Any]:
    """Check a part of an agent block: with its type as a whole, without one only its keys."""
    if not isinstance(value, Mapping):
        raise problem("expected a mapping")
    if value.get("type") is not None:
        _check_whole(value, info)
        return dict(value)
    check_part_of_agent(value, info)
    return dict(value)


def check_part_of_agent(value: Mapping[str, Any], info: ValidationInfo | None = None) -> None:
    """Check the keys of an agent block whose type comes from elsewhere; each value must suit one type that has the key.

    Raises ValidationError.
    """
    models = all_models()
    valid = {name for model in models.values() for name in model.model_fields} | set(AgentConfig.merging.aliases)
    raise_findings("agent", _unknown(value, valid), value)
    context = info.context if info is not None else None
    for key, item in value.items():
        _check_key_of_agent(key, item, models, context)


def _check_key_of_agent(key: str, item: Any, models: Mapping[str, type[AgentConfig]], context: Any) -> None:
    name = AgentConfig.merging.canonical(key)
    refused = None
    for model in [AgentConfig] if name in AgentConfig.model_fields else models.values():
        if name not in model.model_fields:
            continue
        try:
            model.model_validate({key: item}, context=context)
            return
        except ValidationError as error:
            about = [detail for detail in error.errors(include_url=False) if detail["loc"][:1] == (key,)]
            if not about or all(detail["msg"].startswith(_ABOUT_OTHERS) for detail in about):
                return
            refused = refused or [Finding(tuple(detail["loc"]), message_of(detail, model)) for detail in about]
    raise_findings("agent", refused or (), {key: item})


def _check_whole(value: Mapping[str, Any], info: ValidationInfo) -> AgentConfig | None:
    try:
        return parse_agent(value, info)
    except ValidationError as error:
        if all(detail["type"] == "missing" for detail in error.errors(include_url=False)):
            return None
        raise


def partial_simulation(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise problem("expected a mapping")
    raise_findings("simulation", _unknown(value, set(Simulation.model_fields)), value)
    return dict(value)


def _part_of_context(value: Any, handler: ValidatorFunctionWrapHandler) -> CheckerContext | None:
    """Check the settings of judges; what is missing may come from another layer, and then there is no model of them."""
    try:
        checked: CheckerContext | None = handler(value)
    except ValidationError as error:
        if all(detail["type"] == "missing" for detail in error.errors(include_url=False)):
            return None
        raise
    return checked


def _unknown(value: Mapping[str, Any], valid: set[str]) -> list[Finding]:
    return [Finding((key,), f"unknown key {key!r}{hint(key, valid)}") for key in value if key not in valid]


class PromptMutation(WholeModel):
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
        if not self.regex:
            return self
        if error := regex_error(self.pattern):
            raise_findings("PromptReplace", [Finding(("pattern",), error)], self.__dict__)
        try:
            re.sub(self.pattern, self.replacement, "")
        except (re.error, IndexError) as error:
            raise_findings("PromptReplace", [Finding(("replacement",), str(error))], self.__dict__)
        return self


class PromptTemplate(PromptMutation):
    """Values for the `{name}` places of the prompt."""

    type: Literal["template"] = "template"
    variables: dict[str, str]


MUTATIONS: Mapping[str, type[PromptMutation]] = {
    "prefix": PromptPrefix,
    "suffix": PromptSuffix,
    "replace": PromptReplace,
    "template": PromptTemplate,
}


def _parse_mutation(value: Any, info: ValidationInfo) -> PromptMutation:
    if isinstance(value, PromptMutation):
        return value
    made = pick(value, MUTATIONS, "prompt mutation").model_validate(value, context=info.context)
    assert isinstance(made, PromptMutation)
    return made


Mutation = Annotated[
    SerializeAsAny[PromptMutation],
    PlainValidator(
        _parse_mutation, json_schema_input_type=PromptPrefix | PromptSuffix | PromptReplace | PromptTemplate
    ),
]
Repeats = Annotated[PositiveInt, Field(le=MOST_REPEATS)]


class Layer(WholeModel):
    """What the defaults of an experiment and its variants have in common."""

    repeats: Repeats | None = None
    agent: Annotated[dict[str, Any], PlainValidator(partial_agent)] | None = None
    checker_context: Annotated[CheckerContext | None, WrapValidator(_part_of_context)] = None
    simulation: Annotated[dict[str, Any], PlainValidator(partial_simulation)] | None = None
    template_sources: tuple[TemplateSource, ...] | None = None
    prompt_mutations: tuple[Mutation, ...] | None = None
    run_limits: RunLimits | None = None
    driver: Driver | None = None
    sandbox: SandboxConfig | None = None


class ExperimentDefaults(Layer):
    """What holds for every variant and lies below the task's own settings."""

    post_run: tuple[PostRunCommand, ...] = ()
    pre_run: tuple[PreRunCommand, ...] = ()


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


class Experiment(WholeModel):
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


Checked = TypeVar("Checked", bound=StrictModel)


@dataclasses.dataclass(frozen=True, eq=False)
class LayerFile(Generic[Checked]):
    """A file with settings for many tasks: what it holds, checked and as it was read."""

    path: Path
    shown: str
    document: Document
    content: Checked


def read_experiment(path: Path) -> LayerFile[Experiment]:
    """Read and check an experiment file, once while it does not change. Raises TaskFileError, whatever it holds."""
    return _read(path, Experiment, "an experiment")


def read_defaults(path: Path) -> LayerFile[ExperimentDefaults] | None:
    """Read and check the defaults of a folder, once while they do not change; None when there is no such file.

    Raises TaskFileError.
    """
    return _read(path, ExperimentDefaults, "a file of defaults") if path.is_file() else None


_known: dict[tuple[Path, type[StrictModel]], tuple[tuple[int, int], Any]] = {}


def _read(path: Path, model: type[Checked], what: str) -> LayerFile[Checked]:
    try:
        status = path.stat()
        state = (status.st_mtime_ns, status.st_size)
    except OSError:
        state = (0, 0)
    known = _known.get((path, model))
    if known is None or known[0] != state:
        known = _known[(path, model)] = (state, _checked(path, model, what))
    if isinstance(known[1], TaskFileError):
        raise TaskFileError(known[1].problems)
    return known[1]


def _checked(path: Path, model: type[Checked], what: str) -> LayerFile[Checked] | TaskFileError:
    shown = shown_path(path)
    try:
        document = read(read_text(path))
    except ReadError as error:
        return TaskFileError((unreadable(shown, error),))
    if not isinstance(document.data, Mapping):
        message = f"{what} is a mapping of keys and values; found {describe(document.data)}"
        return TaskFileError((problem_at(shown, document, (), message),))
    repeated = [
        dataclasses.replace(
            problem_at(shown, document, again.location, f"the key {str(again.location[-1])!r} stands here twice"),
            line=again.line,
            column=again.column,
        )
        for again in document.duplicates
    ]
    try:
        content = model.model_validate(document.data)
    except ValidationError as error:
        return TaskFileError((*repeated, *problems_of(error, shown, document, model)))
    return TaskFileError(tuple(repeated)) if repeated else LayerFile(path, shown, document, content)
