"""How often a task is attempted, and how many of the attempts must pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from .base import Finding, WholeModel, problem, raise_findings
from .fields import AtLeastOne, Fraction, refuse_bool
from .nearest import hint

if TYPE_CHECKING:
    from .models import Task

MOST_REPEATS = 999
TARGET_NAMES = ("pass_rate", "pass@k", "pass^k")
_TARGET = re.compile(r"pass(?P<kind>[@^])(?P<k>[1-9][0-9]{0,2})")


class Target(NamedTuple):
    """A target by its parts: `kind` is "rate", "@" or "^", `k` the number of attempts, None for the rate."""

    kind: str
    k: int | None


def target_of(name: str) -> Target:
    """Read the name of a target: `pass_rate`, `pass@3`, `pass^3`. Raises ValueError for any other."""
    if name == "pass_rate":
        return Target("rate", None)
    match = _TARGET.fullmatch(name)
    if match is None:
        raise ValueError(name)
    return Target(match["kind"], int(match["k"]))


def _known_targets(targets: dict[str, float]) -> dict[str, float]:
    for name in targets:
        try:
            target_of(name)
        except ValueError:
            near = hint(re.sub(r"[0-9]+$", "k", name), TARGET_NAMES)
            raise problem(
                f"no target is called {name!r}{near} (targets: {', '.join(TARGET_NAMES)}, k a number from 1 to "
                f"{MOST_REPEATS} such as pass@3)"
            ) from None
    return targets


class Repeats(WholeModel):
    """`count` attempts, each a trial of its own. With `targets` a single failed attempt is tolerated, and the group of
    attempts is judged by its rates instead."""

    count: Annotated[int, BeforeValidator(refuse_bool), Field(ge=1, le=MOST_REPEATS)]
    targets: Annotated[dict[str, Fraction], AtLeastOne, AfterValidator(_known_targets)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _number_alone(cls, value: Any) -> Any:
        return value if isinstance(value, Mapping | cls) else {"count": value}

    @model_validator(mode="after")
    def _check(self) -> Repeats:
        findings = [
            Finding(("targets", name), f"{name} needs at least {k} attempts; count is {self.count}")
            for name, k in too_large(self.targets or {}, self.count)
        ]
        raise_findings("Repeats", findings, self.__dict__)
        return self


def too_large(targets: Mapping[str, float], count: int) -> list[tuple[str, int]]:
    """The targets whose k is more than the number of attempts, each with its k."""
    named = [(name, target_of(name).k) for name in targets]
    return [(name, k) for name, k in named if k is not None and k > count]


def repeats_of(task: Task) -> tuple[int, dict[str, float]]:
    """How often the task asks to be attempted, and its targets by name; none means that every attempt must pass."""
    if task.repeats is None:
        return 1, {}
    return task.repeats.count, dict(task.repeats.targets or {})
