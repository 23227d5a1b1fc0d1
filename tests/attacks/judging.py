"""Tells from what a trial left behind what came of an attack in it."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_codereval.errors import Cause
from pytest_codereval.sandbox import landlock

from .model import Attack, Outcome, State, World

BEFORE_THE_AGENT = frozenset({Cause.CONFIGURATION, Cause.SANDBOX, Cause.PRE_RUN, Cause.SHIM_UNREACHABLE})
NAMING = frozenset({Cause.TAMPERED, Cause.EVIDENCE_LOST, Cause.OUT_OF_SPACE})
"""Causes of an error that tell what the agent did."""

LANDLOCKED = frozenset({"read", "reach", "escalate", "write", "bypass shims"})
"""The themes that the driver `tempdir` answers by Landlock."""

_USERS = {"root": "root", "other": "a user who is not root"}


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of an attack under a driver, and why it is thought so."""

    attack: Attack
    driver: str
    state: State
    why: str

    def __str__(self) -> str:
        return f"{self.driver}: {self.attack.name}: {self.state}, expected {self.expected}: {self.why}"

    @property
    def expected(self) -> State:
        return self.attack.expected.of(self.driver)

    @property
    def right(self) -> bool:
        """An attack that has nothing to work with here, or that only another user can try, says nothing."""
        return self.state == self.expected or (self.state is State.UNTESTED and self.why.startswith("not here: "))


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial in which attacks were tried. `facts` is what the harness said of it, None when the harness died.

    `end` says how the harness ended, `seen` is what reached the fake services.
    """

    driver: str
    facts: Mapping[str, Any] | None
    end: str
    seen: tuple[str, ...]
    world: World


def judge(theme: str, attack: Attack, number: int, trial: Trial) -> Result:
    """`number` is that of the attack's step in its trial."""

    def result(state: State, why: str) -> Result:
        return Result(attack, trial.driver, state, why)

    if reason := _not_here(theme, attack, trial.driver):
        return result(State.UNTESTED, f"not here: {reason}")
    facts = trial.facts
    if facts is None:
        killed = attack.kills and trial.end.startswith("the harness ended with -9")
        return result(State.POSSIBLE if killed else State.UNTESTED, trial.end)
    record = _record(Path(facts["folder"]))
    step = _step(record, number)
    if step is None and record is not None:
        state = State.REFUSED if record.get("cause") in BEFORE_THE_AGENT else State.UNTESTED
        return result(state, f"not tried: {record.get('message') or facts['raised']}")
    outcome = _outcome(attack, facts, record, step or {}, trial)
    if missing := next((line for line in outcome.output.splitlines() if line.startswith("CANNOT: ")), None):
        return result(State.UNTESTED, f"not here: {missing.removeprefix('CANNOT: ')}")
    if why := _detection(attack, trial.driver, outcome):
        return result(State.DETECTED, why)
    if attack.succeeded(outcome):
        return result(State.POSSIBLE, f"{(record or {}).get('status')}; {outcome.output[-300:]}")
    return result(*_failure(attack, trial.driver, outcome))


def _not_here(theme: str, attack: Attack, driver: str) -> str:
    who = "root" if os.getuid() == 0 else "other"
    if attack.user not in ("", who):
        return f"only {_USERS[attack.user]} can try it"
    locked = theme in LANDLOCKED or attack.needs_landlock
    if driver == "tempdir" and locked and landlock.abi() < landlock.SCOPES:
        return f"this driver needs Landlock {landlock.SCOPES} for it, {landlock.abi()} is here"
    return ""


def _detection(attack: Attack, driver: str, outcome: Outcome) -> str:
    """What tells of the attack, if anything. An error of a trial that several attacks share could be of any of them."""
    record = outcome.record or {}
    if driver == "open":
        return ""
    named = record.get("cause") in NAMING or (outcome.record is None and outcome.raised)
    if named and attack.setting.is_alone(driver):
        return f"{record.get('cause')}: {record.get('message') or outcome.raised}"
    if not attack.succeeded(outcome):
        return ""
    if attack.detected(outcome):
        return f"{outcome.verdicts} {outcome.leftovers}"
    return "its evidence is tainted" if (record.get("leaks") or {}).get("state") == "tainted" else ""


def _failure(attack: Attack, driver: str, outcome: Outcome) -> tuple[State, str]:
    """Prevented, unless the trial says nothing of it because something else went wrong."""
    record = outcome.record or {}
    if attack.criteria and not attack.setting.is_alone(driver) and record.get("cause") is not None:
        return State.UNTESTED, f"its trial was not judged: {record.get('message')}"
    if outcome.verdicts and set(outcome.verdicts) == {"error"}:
        return State.UNTESTED, "its criteria could not be judged"
    return State.PREVENTED, f"{record.get('message')}; {outcome.output[-300:]}"


def _outcome(attack: Attack, facts: Mapping[str, Any], record: Any, step: Mapping[str, Any], trial: Trial) -> Outcome:
    criteria = (record or {}).get("criteria", ())
    return Outcome(
        name=attack.name,
        output=step.get("output", ""),
        verdicts=tuple(each["verdict"] for each in criteria if each["description"] == attack.name),
        alive=f"{trial.world.mark}-{attack.name}" in facts["alive"],
        seen=tuple(text for text in trial.seen if f"attack {attack.name}." in text),
        seconds=facts["seconds"],
        left=bool(facts["left"]),
        leftovers=tuple(facts["leftovers"]),
        record=record,
        raised=facts["raised"],
        changed=tuple(facts["changed"]),
        folder=Path(facts["folder"]),
        world=trial.world,
    )


def _record(folder: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _step(record: dict[str, Any] | None, number: int) -> dict[str, Any] | None:
    events = ((record or {}).get("trajectory") or {}).get("events", ())
    return next((event for event in events if event.get("id") == f"step-{number}"), None)
