"""All criterion types, and reading one of them by its `type`."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainValidator, SerializeAsAny, ValidationError, ValidationInfo

from ..errors import CoderEvalError
from .base import Finding, problem, raise_findings
from .cli_models import CliCalled
from .command_models import CommandExecuted, CommandsEfficiency, RunCommand, SkillTriggered
from .criterion import Criterion
from .file_models import (
    ClassificationMatch,
    FileCheck,
    FileContains,
    FileExists,
    FileMatchesRegex,
    JsonCheck,
    ReferenceComparison,
)
from .judge_models import AgentJudge, LlmJudge
from .nearest import hint

_models: dict[str, type[Criterion]] = {
    "file_exists": FileExists,
    "file_contains": FileContains,
    "file_matches_regex": FileMatchesRegex,
    "file_check": FileCheck,
    "json_check": JsonCheck,
    "run_command": RunCommand,
    "cli_called": CliCalled,
    "command_executed": CommandExecuted,
    "commands_efficiency": CommandsEfficiency,
    "skill_triggered": SkillTriggered,
    "classification_match": ClassificationMatch,
    "reference_comparison": ReferenceComparison,
    "llm_judge": LlmJudge,
    "agent_judge": AgentJudge,
}
_added: dict[str, type[Criterion]] = {}
CRITERION_MODELS: Mapping[str, type[Criterion]] = types.MappingProxyType(_models)
"""The model of each type, those of plugins behind the built-in ones."""

REMOVED_TYPES = ("program_stdout_equals", "code_lints", "scored_command")
LEGACY_GUARD = "command_not_executed"
RESERVED_TYPES = (*REMOVED_TYPES, LEGACY_GUARD)
"""Names of older releases, which mean something still."""

_TYPE_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def set_added(models: Mapping[str, type[Criterion]]) -> None:
    """Take these for the models of plugins, in place of all others of plugins."""
    for name in _added:
        del _models[name]
    _added.clear()
    _added.update(models)
    _models.update(models)


def type_name_of(model: type[Criterion]) -> str:
    """The one value that the model's field `type` may have. Raises CoderEvalError when there is no such value."""
    values = typing.get_args(model.model_fields["type"].annotation)
    if len(values) != 1 or not isinstance(values[0], str) or not _TYPE_NAME.fullmatch(values[0]):
        raise CoderEvalError(
            f"the criterion {model.__module__}.{model.__qualname__}: expected a field such as "
            'type: Literal["my_type"] = "my_type", the name in lower-case letters, digits and \'_\''
        )
    return values[0]


def model_error(model: type[Criterion]) -> str | None:
    """What keeps the model of a plugin from being as strict as the built-in ones, None when nothing does.

    Raises CoderEvalError when it says no type.
    """
    if model.model_config.get("extra") != "forbid" or not model.model_config.get("frozen"):
        return "its model_config must keep extra='forbid' and frozen=True"
    type_name_of(model)
    try:
        model.model_rebuild()
    except Exception as error:
        return f"pydantic cannot build its model: {type(error).__name__}: {error}"
    lacking = [name for name in Criterion.model_fields if name not in model.model_fields]
    return f"it has no field {lacking[0]!r}, which every criterion has" if lacking else None


def parse_criterion(value: Any, info: ValidationInfo) -> Criterion:
    """Return the criterion that `type` names. A missing or unknown type is exactly one problem."""
    if isinstance(value, Criterion):
        return value
    if not isinstance(value, Mapping):
        raise problem("expected a mapping that describes a criterion")
    kind = value.get("type")
    if kind == LEGACY_GUARD:
        kind, value = "command_executed", {**value, "type": "command_executed", "min_count": 0, "max_count": 0}
    if not isinstance(kind, str) or kind not in CRITERION_MODELS:
        place = ("type",) if "type" in value else ()
        raise_findings("criterion", [Finding(place, _type_error(value))], value)
    model = _models[str(kind)]
    if str(kind) not in _added:
        return model.model_validate(value, context=info.context)
    try:
        return model.model_validate(value, context=info.context)
    except ValidationError:
        raise
    except Exception as error:
        raise problem(f"the model of {kind} raised {type(error).__name__}: {error}") from None


def _type_error(value: Mapping[str, Any]) -> str:
    known = ", ".join(CRITERION_MODELS)
    if "type" not in value:
        return f"the key 'type' is missing; expected one of {known}"
    kind = value["type"]
    if kind in REMOVED_TYPES:
        return f"the criterion type {kind!r} was removed; use run_command instead"
    shown = kind[:80] if isinstance(kind, str) else kind
    return f"no criterion has the type {shown!r}{hint(str(kind), CRITERION_MODELS)} (types: {known})"


AnyCriterion = Annotated[SerializeAsAny[Criterion], PlainValidator(parse_criterion)]
