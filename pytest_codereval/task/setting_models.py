"""The smaller blocks of a task: limits, reference, dataset, simulated user, hooks, judge route."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from .base import Finding, StrictModel, WholeModel, raise_findings
from .fields import Command, Fraction, HostPath, Integer, NonBlank, PositiveInt, PositiveNumber, refuse_bool
from .layering.merging import FREE, Merging

HookTimeout = Annotated[float, BeforeValidator(refuse_bool), Field(ge=1, le=300, allow_inf_nan=False)]
UpTo100 = Annotated[int, BeforeValidator(refuse_bool), Field(ge=1, le=100)]


class RunLimits(StrictModel):
    """When the harness stops an agent. Times are in seconds, costs in US dollars."""

    merging = Merging(
        replace=(
            *("max_turns", "expected_turns", "task_timeout", "turn_timeout"),
            *("max_input_tokens", "max_output_tokens", "max_total_tokens", "max_usd"),
            *("count_cached_input", "count_cache_creation", "stop_early", "stop_early_gate_threshold"),
        )
    )

    max_turns: PositiveInt | None = None
    expected_turns: PositiveInt | None = None
    task_timeout: Annotated[float, BeforeValidator(refuse_bool), Field(ge=30, allow_inf_nan=False)] | None = None
    turn_timeout: Annotated[float, BeforeValidator(refuse_bool), Field(ge=10, allow_inf_nan=False)] | None = None
    max_input_tokens: PositiveInt | None = None
    max_output_tokens: PositiveInt | None = None
    max_total_tokens: PositiveInt | None = None
    max_usd: PositiveNumber | None = None
    count_cached_input: bool = False
    count_cache_creation: bool = False
    stop_early: bool | None = None
    stop_early_gate_threshold: Fraction = 1.0


class Reference(WholeModel):
    """A solution that only graders see: a directory or a file beside the task, or the text itself."""

    directory: HostPath | None = None
    file: HostPath | None = None
    code: NonBlank | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Reference:
        used = [name for name in ("directory", "file", "code") if getattr(self, name) is not None]
        if len(used) != 1:
            given = " and ".join(used) or "none"
            raise_findings("Reference", [Finding((), f"expected exactly one of directory, file, code; found {given}")])
        return self


class Dataset(WholeModel):
    """Rows, written here or in JSON Lines files beside the task; each makes a trial."""

    rows: tuple[dict[str, Any], ...] | None = None
    paths: tuple[HostPath, ...] | None = None
    id_field: NonBlank = "id"
    sample_per_stratum: PositiveInt | None = None
    stratify_field: NonBlank = "expected_skill"
    sample_seed: Integer | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Dataset:
        found = []
        if (self.rows is None) == (self.paths is None):
            found.append(Finding((), "expected exactly one of rows and paths"))
        elif self.rows == ():
            found.append(Finding(("rows",), "expected at least one row"))
        elif self.paths == ():
            found.append(Finding(("paths",), "expected at least one file"))
        raise_findings("Dataset", found)
        return self


class Simulation(StrictModel):
    """A model that plays the user.

    `max_turns` counts the agent's replies, `max_total_tokens` the tokens of both sides; `max_usd` is for the simulated
    user alone.
    """

    merging = Merging(
        replace=(
            *("enabled", "model", "persona", "goal", "constraints", "max_turns", "stop_token", "stop_on_criteria_pass"),
            *("max_total_tokens", "max_usd", "n_trials", "check_criteria"),
        )
    )

    enabled: bool = False
    model: NonBlank = "anthropic.claude-sonnet-4-6"
    persona: NonBlank
    goal: NonBlank
    constraints: tuple[str, ...] = ()
    max_turns: UpTo100 = 8
    stop_token: Annotated[str, Field(min_length=1)] = "<<<END>>>"
    stop_on_criteria_pass: bool = False
    max_total_tokens: PositiveInt | None = None
    max_usd: PositiveNumber | None = None
    n_trials: UpTo100 = 1
    check_criteria: Literal["end_of_dialog", "every_turn", "both"] = "end_of_dialog"

    @model_validator(mode="after")
    def _check(self) -> Simulation:
        found = []
        if self.stop_on_criteria_pass and self.check_criteria == "end_of_dialog":
            message = "needs check_criteria: every_turn or both"
            found.append(Finding(("stop_on_criteria_pass",), message))
        if not self.stop_token.strip():
            found.append(Finding(("stop_token",), "expected text, found only blanks"))
        raise_findings("Simulation", found)
        return self


class PreRunCommand(WholeModel):
    """A shell command before the agent starts; `timeout` is in seconds."""

    command: Command
    timeout: HookTimeout = 30
    fail_on_error: bool = True


class PostRunCommand(WholeModel):
    """A shell command after judging; it never changes the verdict. `timeout` is in seconds."""

    command: Command
    timeout: HookTimeout = 30


class ApiRoute(StrictModel):
    """How judges reach their model. `env_params` names environment variables, never their values."""

    merging = Merging(replace=("route", "model"), deep={"params": FREE, "env_params": FREE})

    route: Literal["direct", "bedrock", "litellm"]
    model: NonBlank | None = None
    params: dict[str, Any] | None = None
    env_params: dict[str, str] | None = None

    @model_validator(mode="after")
    def _check(self) -> ApiRoute:
        found = []
        if self.route != "litellm":
            for key in ("params", "env_params"):
                if getattr(self, key):
                    found.append(Finding((key,), "only with route: litellm"))
        elif self.model is None:
            found.append(Finding(("model",), "route: litellm needs a model"))
        if "api_key" in (self.params or {}):
            place = "env_params, as the name of an environment variable"
            found.append(Finding(("params", "api_key"), f"a key does not belong into a task file: give it in {place}"))
        raise_findings("ApiRoute", found)
        return self


class CheckerContext(StrictModel):
    """Settings of all judges of a task."""

    merging = Merging(deep={"api_route": ApiRoute.merging})

    api_route: ApiRoute | None = None
