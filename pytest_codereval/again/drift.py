"""What changed between a stored trial and the one that would run today."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..running.identity import changes
from ..store.reader import StoredRecord
from ..store.record import resolved_task
from ..text import wire

if TYPE_CHECKING:
    from ..task.models import Task

MOST_NAMED = 5

_OF_JUDGING = ("success_criteria", "reference", "description", "tags", "skip", "repeats", "post_run")
"""Settings that the agent's work does not depend on."""

_ONLY_SAID = ("description", "name", "suite_thresholds")
"""Keys of a criterion on which its verdict does not depend."""


def drift(stored: StoredRecord, now: Mapping[str, str], task: Task) -> list[str]:
    """What a stored trial and today's differ in, by name; empty when the stored one stands for today's."""
    then = stored.fingerprint_parts
    if not then:
        return ["its record has no fingerprint in parts"]
    found = changes(then, now)
    if "task changed" not in found:
        return found
    named = _named(differing_paths(stored.content["task"]["resolved"], resolved_task(task)))
    return [f"task: {named}" if each == "task changed" and named else each for each in found]


def differing_settings(content: Mapping[str, Any], task: Task) -> list[str]:
    """The settings of the stored task that the agent's work depends on and that are others today.

    Criteria are among them where they stopped the agent early: it may not have come to what others ask for.
    """
    then = (content.get("task") or {}).get("resolved") or {}
    paths = differing_paths(then, resolved_task(task))
    without = {*_OF_JUDGING} - ({"success_criteria"} if content.get("early_stop") else set())
    return [path for path in paths if path.split(".")[0].split("[")[0] not in without]


def changed_deciders(content: Mapping[str, Any], task: Task) -> list[str]:
    """The criteria that could stop the agent's run early, where it was, and that nothing today is like, by name."""
    early = content.get("early_stop") or {}
    names = {each["index"]: each["name"] for each in content.get("criteria") or ()}
    then = ((content.get("task") or {}).get("resolved") or {}).get("success_criteria") or []
    before = {names.get(index): _judges_by(criterion) for index, criterion in enumerate(then)}
    today = [_judges_by(criterion) for criterion in resolved_task(task)["success_criteria"]]
    return [name for name in early.get("armed") or () if name not in before or before[name] not in today]


def _judges_by(criterion: Mapping[str, Any]) -> object:
    return wire({key: value for key, value in criterion.items() if key not in _ONLY_SAID})


def differing_paths(then: object, now: object) -> list[str]:
    """The dotted paths at which two resolved tasks differ."""
    return list(_differing(wire(then), wire(now), ""))


def _differing(then: Any, now: Any, path: str) -> Iterator[str]:
    if then == now:
        return
    if isinstance(then, dict) and isinstance(now, dict):
        for key in {**then, **now}:
            yield from _differing(then.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (before, after) in enumerate(zip(then, now, strict=True)):
            yield from _differing(before, after, f"{path}[{index}]")
    else:
        yield path or "all"


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(paths[:MOST_NAMED]) + more
