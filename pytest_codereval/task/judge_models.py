"""Criteria that a model judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationInfo,
    model_validator,
)

from .agent_models import AgentConfig, parse_judge_agent
from .base import problem
from .criterion import Criterion
from .fields import (
    VARIABLE_NAME,
    Fraction,
    NonBlank,
    PositiveInt,
    PositiveNumber,
    awaits_row,
    path_error,
    refuse_bool,
)

_JUDGE_ROOTS = ("$TASK_DIR", "$REFERENCE_DIR", "${TASK_DIR}", "${REFERENCE_DIR}")


def _judge_file(path: str, info: ValidationInfo) -> str:
    if awaits_row(path, info) or any(path == root or path.startswith(root + "/") for root in _JUDGE_ROOTS):
        return path
    if error := path_error(path):
        raise problem(f"{error} (or start it with $TASK_DIR/ or $REFERENCE_DIR/)")
    return path


def _variable_name(name: str) -> str:
    if not VARIABLE_NAME.fullmatch(name):
        raise problem("expected the name of an environment variable, never a key itself")
    return name


JudgeFile = Annotated[str, AfterValidator(_judge_file)]


def _refuse_verdict_channel(value: Any) -> Any:
    if isinstance(value, Mapping) and "verdict_channel" in value:
        raise problem("verdict_channel was removed: the verdict is always given by a tool call; delete the key")
    return value


class JudgeMaterial(Criterion):
    """What a judge sees of a trial. Limits are in characters."""

    pass_threshold: Fraction = 0.7
    files: tuple[JudgeFile, ...] = ()
    include_reference: bool = True
    include_agent_output: bool = False
    include_tool_calls: bool = False
    include_dialog: bool = False
    max_dialog_chars: PositiveInt = 80_000
    max_file_chars: PositiveInt = 20_000
    capture_transcript: bool = True
    max_transcript_chars: PositiveInt = 100_000

    @model_validator(mode="before")
    @classmethod
    def _migrate(cls, value: Any) -> Any:
        return _refuse_verdict_channel(value)


class JudgeContext(JudgeMaterial):
    """A judge that is told by a prompt what to look at. `max_usd` is for one judgement, in US dollars."""

    asks_model: ClassVar[bool] = True

    prompt: NonBlank
    max_usd: PositiveNumber | None = None


class LlmJudge(JudgeContext):
    """Calls of a model that must submit a score and a rationale: `samples` of them, whose median counts.

    `timeout` is in seconds, for each call with its retries. `api`, `base_url` and `api_key_env` (the name of an
    environment variable where pytest runs) go before the task's route.
    """

    type: Literal["llm_judge"] = "llm_judge"
    model: NonBlank | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 0
    max_tokens: PositiveInt = 2000
    samples: Annotated[int, BeforeValidator(refuse_bool), Field(ge=1, le=99)] = 1
    confirm_on_fail: bool = False
    timeout: PositiveNumber = 300
    api: Literal["anthropic", "openai"] | None = None
    base_url: NonBlank | None = None
    api_key_env: Annotated[str, AfterValidator(_variable_name)] | None = None


class AgentJudge(JudgeContext):
    """An agent that looks around in a copy of the workspace. `turn_timeout` is in seconds."""

    type: Literal["agent_judge"] = "agent_judge"
    max_turns: PositiveInt = 50
    turn_timeout: Annotated[float, Field(ge=10, allow_inf_nan=False)] = 300
    agent: Annotated[SerializeAsAny[AgentConfig], PlainValidator(parse_judge_agent)] | None = None
