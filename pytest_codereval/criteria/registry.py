"""The types of criteria: the model of each, its checker and, where it has one, its live verdict."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Iterable
from typing import Any

from ..errors import CoderEvalError, JudgingError
from ..task import criteria_models
from ..task.criterion import Criterion
from .contract import Checker, Evidence, Verdict

LiveVerdict = Callable[[Any, Evidence], Verdict | None]
"""Takes the criterion's model and the evidence so far: pass or fail once that is certain whatever comes, else None."""

LivePolarities = Callable[[Any], Iterable[Verdict]]
"""Takes the criterion's model: which verdicts it may give live."""

TYPES = (
    "agent_judge",
    "classification_match",
    "cli_called",
    "command_executed",
    "commands_efficiency",
    "file_check",
    "file_contains",
    "file_exists",
    "file_matches_regex",
    "json_check",
    "llm_judge",
    "reference_comparison",
    "run_command",
    "skill_triggered",
)
"""The names of the built-in types. Each is a module of this package with a function `check`."""


@dataclasses.dataclass(frozen=True)
class CriterionKind:
    """A type of criteria of a plugin: `type: NAME` in a task, NAME being the one value of the model's field `type`.

    `check` takes the criterion and the evidence and returns a Judgement; it raises JudgingError for what cannot be
    judged. `live_verdict` and `live_polarities` are for a criterion that may end the agent's run: its model has a
    field `stop_early`. `origin` names the plugin in messages; the session fills it in.
    """

    model: type[Criterion]
    check: Checker
    live_verdict: LiveVerdict | None = None
    live_polarities: LivePolarities | None = None
    origin: str = ""

    @property
    def type_name(self) -> str:
        """The name of the type. Raises CoderEvalError for a model that does not say it."""
        return criteria_models.type_name_of(self.model)

    @property
    def described(self) -> str:
        """The class, and where it comes from."""
        described = f"{self.model.__module__}.{self.model.__qualname__}"
        return f"{described} ({self.origin})" if self.origin else described


_added: dict[str, CriterionKind] = {}


def use_kinds(kinds: Iterable[CriterionKind]) -> Callable[[], None]:
    """Take these for the types that plugins bring, in place of all others of plugins; the result undoes that.

    Raises CoderEvalError for one that is not complete and, naming both, when two have one name.
    """
    found: dict[str, CriterionKind] = {}
    for kind in kinds:
        name = _checked_name(kind)
        if name in found and found[name] != kind:
            raise CoderEvalError(
                f"the criterion type {name!r} is given by both {found[name].described} and {kind.described}"
            )
        found[name] = kind
    before = dict(_added)
    _replace(found)
    return lambda: _replace(before)


def _replace(kinds: dict[str, CriterionKind]) -> None:
    _added.clear()
    _added.update(kinds)
    criteria_models.set_added({name: kind.model for name, kind in kinds.items()})


def _checked_name(kind: CriterionKind) -> str:
    if not (isinstance(kind.model, type) and issubclass(kind.model, Criterion)):
        raise CoderEvalError(f"{kind.model!r:.200}{_of(kind)}: expected a class based on Criterion")
    if problem := criteria_models.model_error(kind.model):
        raise CoderEvalError(f"the criterion {kind.described}: {problem}")
    if kind.type_name in TYPES or kind.type_name in criteria_models.RESERVED_TYPES:
        raise CoderEvalError(
            f"the criterion type {kind.type_name!r} of {kind.described}: pytest-codereval has one of that name"
        )
    for what in ("check", "live_verdict", "live_polarities"):
        given = getattr(kind, what)
        if not (callable(given) or (given is None and what != "check")):
            raise CoderEvalError(f"the criterion {kind.described}: its {what} is {given!r:.80}, expected a function")
    if kind.live_verdict is not None and "stop_early" not in kind.model.model_fields:
        raise CoderEvalError(f"the criterion {kind.described}: with a live_verdict it needs a field stop_early")
    if "stop_early" in kind.model.model_fields and kind.live_verdict is None:
        raise CoderEvalError(f"the criterion {kind.described}: a field stop_early does nothing without a live_verdict")
    return kind.type_name


def _of(kind: CriterionKind) -> str:
    return f" ({kind.origin})" if kind.origin else ""


def types() -> tuple[str, ...]:
    """The names of all types, those of plugins among them."""
    return (*TYPES, *_added)


def added() -> tuple[CriterionKind, ...]:
    """The kinds that plugins brought."""
    return tuple(_added.values())


def kind_of(type_name: str) -> CriterionKind:
    """Return the model and the functions of a type. Raises JudgingError for an unknown one."""
    if type_name in _added:
        return _added[type_name]
    if type_name not in TYPES:
        raise JudgingError(f"no criterion type is named {type_name!r}")
    module = importlib.import_module(f"{__package__}.{type_name}")
    return CriterionKind(
        model=criteria_models.CRITERION_MODELS[type_name],
        check=module.check,
        live_verdict=getattr(module, "live_verdict", None),
        live_polarities=getattr(module, "live_polarities", None),
        origin="pytest-codereval",
    )


def checker(type_name: str) -> Checker:
    """Return the checker of a type. Raises JudgingError for an unknown one."""
    return kind_of(type_name).check


def live(type_name: str) -> LiveVerdict | None:
    """Return the function that gives live verdicts of a type, None for a type without. Raises JudgingError."""
    return kind_of(type_name).live_verdict
