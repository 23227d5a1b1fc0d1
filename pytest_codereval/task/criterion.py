"""What all success criteria have in common."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from .base import Finding, WholeModel, problem, raise_findings
from .fields import Fraction, NonBlank, Number, PositiveInt, Weight

STATISTICS = ("count", "mean", "median", "std", "min", "max", "completion_rate")
CLASSIFICATION_METRICS = ("accuracy", "macro_f1", "weighted_f1", "micro_f1")
LABEL_METRICS = ("precision", "recall", "f1")


def _known_metrics(thresholds: dict[str, float]) -> dict[str, float]:
    from .nearest import hint

    for metric in thresholds:
        prefix, _, label = metric.partition(".")
        if metric in STATISTICS or metric in CLASSIFICATION_METRICS or (prefix in LABEL_METRICS and label):
            continue
        valid = (*STATISTICS, *CLASSIFICATION_METRICS, *(f"{name}.<label>" for name in LABEL_METRICS))
        raise problem(f"no metric is called {metric!r}{hint(metric, valid)} (metrics: {', '.join(valid)})")
    return thresholds


def _plain_name(name: str) -> str:
    if not name.isprintable() or any(sign in name for sign in ("[", "]", "::")):
        raise problem("expected a name of printable characters without '[', ']' and '::'")
    return name


class StopEarly(WholeModel):
    """When a verdict of this criterion may end the agent's run. `decide_within` counts tool calls."""

    on_pass: Literal["stop", "continue"] = "continue"
    decide_within: PositiveInt | None = None


class Criterion(WholeModel):
    """One line of the judgement."""

    needs_trajectory: ClassVar[bool] = False
    """Whether it judges what an agent did, so that it means nothing without one."""

    asks_model: ClassVar[bool] = False
    """Whether judging it means to wait for a model, at the desk of judges."""

    type: str
    description: str
    name: Annotated[NonBlank, AfterValidator(_plain_name)] | None = None
    weight: Weight = 1.0
    pass_threshold: Fraction = 0.9
    suite_thresholds: Annotated[dict[str, Number], AfterValidator(_known_metrics)] | None = Field(default=None)
    enabled: bool = True

    @property
    def gating(self) -> bool:
        """Whether it takes part in the trial's status."""
        return self.enabled and self.weight > 0

    @property
    def evaluable_after_failure(self) -> bool:
        """Whether it may be looked at, for diagnosis, in a trial whose agent failed: it only reads what the agent left.

        Each criterion answers for itself; no judge and none about what the agent did may say so.
        """
        return False

    def labels(self) -> frozenset[str] | None:
        """The labels that it gives to rows, or None when it does not classify."""
        return None

    def expected(self) -> str | None:
        """The label that this row should get, known without judging it; None when the criterion does not classify."""
        return None

    @model_validator(mode="after")
    def _check_common_rules(self) -> Self:
        raise_findings(type(self).__name__, (*self._common_findings(), *self.findings()), self.__dict__)
        return self

    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with this criterion taken by itself, beyond its single values."""
        return ()

    def _common_findings(self) -> tuple[Finding, ...]:
        found = self._unbounded_findings()
        if self.weight == 0 and self.suite_thresholds:
            found.append(Finding(("suite_thresholds",), "an informational criterion (weight: 0) has no thresholds"))
        if self.weight == 0 and getattr(self, "stop_early", None) is not None:
            found.append(Finding(("stop_early",), "an informational criterion (weight: 0) cannot stop the run"))
        found.extend(self._label_findings())
        return tuple(found)

    def _unbounded_findings(self) -> list[Finding]:
        """A type that declares these fields anew may have lost their bounds, and then its criteria would never gate."""
        bounds = (("weight", 0 <= self.weight < float("inf")), ("pass_threshold", 0 <= self.pass_threshold <= 1))
        return [Finding((key,), "the value is out of its range") for key, is_inside in bounds if not is_inside]

    def _label_findings(self) -> list[Finding]:
        labels = self.labels()
        found = []
        for metric in self.suite_thresholds or {}:
            if metric in STATISTICS:
                continue
            prefix, _, label = metric.partition(".")
            place = ("suite_thresholds", metric)
            if labels is None:
                found.append(Finding(place, f"{metric} needs a criterion that classifies; {self.type} does not"))
            elif prefix in LABEL_METRICS and label not in labels:
                found.append(Finding(place, f"no row can have the label {label!r}; expected {listed(labels)}"))
        return found


def listed(names: Any) -> str:
    """Return names for people: `a, b or c`."""
    ordered = sorted(map(str, names))
    return ordered[0] if len(ordered) == 1 else f"{', '.join(ordered[:-1])} or {ordered[-1]}"
