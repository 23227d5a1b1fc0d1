"""Rules about stopping a run early: what armed criteria and the task's `stop_early` need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .base import Finding, Location
from .cli_models import CliCalled
from .command_models import CommandExecuted
from .criterion import Criterion, StopEarly

if TYPE_CHECKING:
    from .models import Task


def armed_by(criterion: Criterion) -> StopEarly | None:
    """The criterion's own `stop_early` block, None where it has none."""
    return getattr(criterion, "stop_early", None)


def early_stop_findings(task: Task) -> Iterator[Finding]:
    """What is wrong with how the task's runs are to be stopped early."""
    limits = task.run_limits
    if limits is not None and limits.stop_early:
        message = (
            "true was removed: a criterion's own stop_early block arms it, stop_early: true at the top of the task "
            "stops at its outcome; false switches all of them off"
        )
        yield Finding(("run_limits", "stop_early"), message)
    if limits is not None and limits.stop_early is False:
        return
    armed = [index for index, criterion in enumerate(task.success_criteria) if armed_by(criterion) is not None]
    places: list[Location] = [("success_criteria", index, "stop_early") for index in armed[:1]]
    if task.stop_early:
        places.insert(0, ("stop_early",))
    for place in places:
        yield from _without_a_run(task, place)
    if task.stop_early and armed:
        message = "not together with stop_early: true at the top of the task, which looks at all gating criteria"
        yield Finding(("success_criteria", armed[0], "stop_early"), message)
    if armed and limits is not None and limits.stop_early_gate_threshold == 0:
        message = "expected more than 0 while a criterion has a stop_early block"
        yield Finding(("run_limits", "stop_early_gate_threshold"), message)
    for index in armed:
        yield from _never_in_time(task.success_criteria, index)


def _without_a_run(task: Task, place: Location) -> Iterator[Finding]:
    if task.simulation is not None and task.simulation.enabled:
        yield Finding(place, "not together with an enabled simulation")
    if task.agent is not None and task.agent.type == "none":
        yield Finding(place, "with agent type none there is no run to stop")


def _never_in_time(criteria: Sequence[Criterion], index: int) -> Iterator[Finding]:
    """A limit for a pass that cannot be certain before the end, because of the criteria behind `after`."""
    criterion, armed = criteria[index], armed_by(criteria[index])
    if not isinstance(criterion, CliCalled) or armed is None or armed.decide_within is None or criterion.after is None:
        return
    named = {other.name: other for other in criteria if isinstance(other, CliCalled) and other.name}
    seen, pending = set[str](), [criterion.after]
    while pending:
        name = pending.pop()
        if name in seen or name not in named:
            continue
        seen.add(name)
        if named[name].before is not None:
            message = f"{name} is ordered by before, so nothing is certain until the end, and every run would be late"
            yield Finding(("success_criteria", index, "stop_early", "decide_within"), message)
            return
        pending.extend(filter(None, (named[name].after,)))


def early_stop_doubts(task: Task) -> Iterator[Finding]:
    """What can hardly be meant."""
    if task.run_limits is not None and task.run_limits.stop_early is False:
        return
    for index, criterion in enumerate(task.success_criteria):
        armed = armed_by(criterion)
        passes = isinstance(criterion, CommandExecuted) and criterion.max_count is None and criterion.min_count > 0
        if armed is None or armed.on_pass != "stop" or not passes:
            continue
        if isinstance(criterion, CommandExecuted) and not criterion.require_success:
            message = "a command that failed would stop the run as a pass; add require_success: true"
            yield Finding(("success_criteria", index, "stop_early"), message)
    if task.stop_early and not any(
        criterion.gating and "stop_early" in type(criterion).model_fields for criterion in task.success_criteria
    ):
        yield Finding(("stop_early",), "it changes nothing: no gating criterion is certain before the end of a run")
