"""All criterion types, and reading one of them by its `type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import PlainValidator, SerializeAsAny, ValidationInfo

from .base import Finding, problem, raise_findings
from .cli_models import CliCalled
from .command_models import CommandExecuted, CommandsEfficiency, RunCommand, SkillTriggered, UipathEval
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
from .judge_models import AgentJudge, LlmJudge, SystemOneJudge
from .nearest import hint

CRITERION_MODELS: dict[str, type[Criterion]] = {
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
    "system_one_judge": SystemOneJudge,
    "uipath_eval": UipathEval,
}
REMOVED_TYPES = ("program_stdout_equals", "code_lints", "scored_command")
LEGACY_GUARD = "command_not_executed"


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
    return CRITERION_MODELS[str(kind)].model_validate(value, context=info.context)


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
