"""Criteria that a model judges."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, SerializeAsAny, ValidationInfo, model_validator

from .agent_models import AgentConfig, parse_judge_agent
from .base import Finding, StrictModel, problem, raise_findings
from .criterion import Criterion
from .fields import AtLeastOne, Fraction, NonBlank, PositiveInt, PositiveNumber, awaits_row, path_error
from .sandbox_models import pick

_JUDGE_ROOTS = ("$TASK_DIR", "$REFERENCE_DIR", "${TASK_DIR}", "${REFERENCE_DIR}")
_MOST_OPTIONS = 255
_MOST_LEVELS = 10


def _judge_file(path: str, info: ValidationInfo) -> str:
    if awaits_row(path, info) or any(path == root or path.startswith(root + "/") for root in _JUDGE_ROOTS):
        return path
    if error := path_error(path):
        raise problem(f"{error} (or start it with $TASK_DIR/ or $REFERENCE_DIR/)")
    return path


JudgeFile = Annotated[str, AfterValidator(_judge_file)]


def _refuse_verdict_channel(value: Any) -> Any:
    if isinstance(value, Mapping) and "verdict_channel" in value:
        raise problem("verdict_channel was removed: the verdict is always given by a tool call; delete the key")
    return value


class JudgeContext(Criterion):
    """What a judge sees of a trial. Limits are in characters."""

    pass_threshold: Fraction = 0.7
    prompt: NonBlank
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


class LlmJudge(JudgeContext):
    """One call of a model that must submit a score and a rationale."""

    type: Literal["llm_judge"] = "llm_judge"
    model: NonBlank | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] = 0
    max_tokens: PositiveInt = 2000


class AgentJudge(JudgeContext):
    """An agent that looks around in a copy of the workspace. `turn_timeout` is in seconds."""

    type: Literal["agent_judge"] = "agent_judge"
    max_turns: PositiveInt = 50
    turn_timeout: Annotated[float, Field(ge=10, allow_inf_nan=False)] = 300
    agent: Annotated[SerializeAsAny[AgentConfig], PlainValidator(parse_judge_agent)] | None = None


class Question(StrictModel):
    """A question with a typed answer. Its value lies in 0..1; `weight` weighs it among the questions."""

    type: str
    instructions: NonBlank
    weight: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] = 1.0


class YesNoQuestion(Question):
    """A question to answer with a probability of yes; `expected: false` turns it round."""

    type: Literal["noul"] = "noul"
    expected: bool = True
    criteria: str | dict[str, str] | tuple[str, ...] | None = None


class ChoiceQuestion(Question):
    """A question with options; either one is expected, or each has a value."""

    type: Literal["choice"] = "choice"
    criteria: tuple[str, ...] | dict[str, str]
    expected: str | tuple[str, ...] | None = None
    values: dict[str, Fraction] | None = None

    @model_validator(mode="after")
    def _check(self) -> ChoiceQuestion:
        raise_findings("ChoiceQuestion", self._findings())
        return self

    def _findings(self) -> list[Finding]:
        if not 2 <= len(self.criteria) <= _MOST_OPTIONS:
            return [Finding(("criteria",), f"expected 2 to {_MOST_OPTIONS} options, found {len(self.criteria)}")]
        if (self.expected is None) == (self.values is None):
            return [Finding((), "expected exactly one of expected and values")]
        expected = (self.expected,) if isinstance(self.expected, str) else self.expected or ()
        unknown = [name for name in (*expected, *(self.values or {})) if name not in self.criteria]
        key = "expected" if self.expected is not None else "values"
        return [Finding((key,), f"{name!r} is none of the options: {', '.join(self.criteria)}") for name in unknown]


class ScoreQuestion(Question):
    """A question answered by one of 2 to 10 levels, from worst to best. Values default to an even ramp."""

    type: Literal["score"] = "score"
    criteria: tuple[str, ...]
    values: tuple[Fraction, ...] | None = None

    @model_validator(mode="after")
    def _check(self) -> ScoreQuestion:
        levels = len(self.criteria)
        found = []
        if not 2 <= levels <= _MOST_LEVELS:
            found.append(Finding(("criteria",), f"expected 2 to {_MOST_LEVELS} levels, found {levels}"))
        if self.values is not None and len(self.values) != levels:
            found.append(Finding(("values",), f"expected one value for each of the {levels} levels"))
        raise_findings("ScoreQuestion", found)
        return self


QUESTIONS: Mapping[str, type[StrictModel]] = {"noul": YesNoQuestion, "choice": ChoiceQuestion, "score": ScoreQuestion}


def _parse_question(value: Any, info: ValidationInfo) -> StrictModel:
    if isinstance(value, Question):
        return value
    return pick(value, QUESTIONS, "question").model_validate(value, context=info.context)


AnyQuestion = Annotated[SerializeAsAny[StrictModel], PlainValidator(_parse_question)]


class SystemOneJudge(Criterion):
    """Typed questions put to a judging service; the score is the weighted mean of their values."""

    type: Literal["system_one_judge"] = "system_one_judge"
    pass_threshold: Fraction = 0.7
    prompt: str | None = None
    questions: Annotated[dict[str, AnyQuestion], AtLeastOne]
    scoring: Literal["expected", "argmax"] = "expected"
    files: tuple[JudgeFile, ...] = ()
    include_reference: bool = True
    include_agent_output: bool = False
    include_tool_calls: bool = False
    include_dialog: bool = False
    max_dialog_chars: PositiveInt = 80_000
    max_file_chars: PositiveInt = 20_000
    max_state_chars: PositiveInt | None = None
    capture_transcript: bool = True
    max_transcript_chars: PositiveInt = 100_000
    model: NonBlank | None = None
    base_url: NonBlank | None = None
    api_key_env: NonBlank | None = None
    timeout_seconds: PositiveNumber = 60

    @model_validator(mode="before")
    @classmethod
    def _migrate(cls, value: Any) -> Any:
        return _refuse_verdict_channel(value)
