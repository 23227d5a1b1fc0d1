"""How the answer to a vector about an early stop may differ, and why: see `rules`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .early_stop import early_stop
from .outcome import Outcome, Vector, agrees

_Event = Mapping[str, Any]


def unfinished_call(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """The calls that are under way, once they have ended well, give what is expected."""
    if kind != "early_stop" or outcome.how != "answered":
        return False
    return any(_agrees_with(vector, events) for events in (_ended(vector["events"]), _late(vector["events"])))


def _agrees_with(vector: Vector, events: list[_Event]) -> bool:
    changed = {**vector, "events": events}
    found = early_stop(changed)
    return events != vector["events"] and (agrees(changed, found) or _but_for(vector, found, ["tool_call_index"]))


def _ended(events: Iterable[_Event]) -> list[_Event]:
    """Each begin of a call is its good end; what would be its end is left out."""
    begun = {event["id"] for event in events if event["kind"] == "tool_start"}
    return [
        {**event, "kind": "tool_end", "status": "ok"} if event["kind"] == "tool_start" else event
        for event in events
        if event["kind"] != "tool_end" or event["id"] not in begun
    ]


def _late(events: Iterable[_Event]) -> list[_Event]:
    """The calls that never ended do so, well, at the very end."""
    open_calls = [event for event in events if event.get("status") == "unresolved"]
    return [event for event in events if event not in open_calls] + [{**event, "status": "ok"} for event in open_calls]


def call_without_end(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """Only the number of the call differs, by those that never ended."""
    orphans = sum(event.get("status") == "unresolved" for event in vector.get("events", ()))
    return kind == "early_stop" and orphans > 0 and _but_for(vector, outcome, ["tool_call_index"], orphans)


def turns_of_each_run(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """Only the turns that were left differ, and the agent ran more than once."""
    runs = sum(event["kind"] == "agent_start" for event in vector.get("events", ()))
    return kind == "early_stop" and runs > 1 and _but_for(vector, outcome, ["turns_remaining_at_stop"])


def fault_not_recorded(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """The watch gave up, which it does when a look goes wrong, and the vector does not tell what went wrong."""
    return kind == "early_stop" and vector["expected"]["disarmed"] and agrees(vector, early_stop(vector, fails=True))


def pass_of_a_fail(kind: str, vector: Vector, outcome: Outcome) -> bool:
    """Ours goes on, for an armed criterion with a `max_count` has not yet been met as often as it must."""
    if kind != "early_stop" or outcome.how != "answered" or outcome.answer["fired"]:
        return False
    armed = [{**each, "min_count": 0} if each.get("max_count") is not None else each for each in vector["armed"]]
    changed = {**vector, "armed": armed}
    return armed != vector["armed"] and agrees(changed, early_stop(changed))


def _but_for(vector: Vector, outcome: Outcome, keys: list[str], more: int | None = None) -> bool:
    """Whether nothing but these parts of the info differ, ours being greater by `more`."""
    expected, found = vector["expected"], outcome.answer
    if outcome.how != "answered" or expected["info"] is None or found["info"] is None:
        return False
    if any(found["info"][key] - expected["info"][key] != more for key in keys if more is not None):
        return False
    whole = {key: found[key] == expected[key] for key in ("fired", "first_stop_event_index", "disarmed")}
    others = expected["info"].keys() - set(keys)
    return all(whole.values()) and all(expected["info"][key] == found["info"][key] for key in others)
