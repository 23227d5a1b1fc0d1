"""How vectors about early stops are put to this package: to its rules for tasks, and to its watch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pytest_codereval.agents import registry as agents
from pytest_codereval.criteria.contract import Evidence
from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.judging.early_stop import watchlist
from pytest_codereval.recorder.invocation import InvocationLog
from pytest_codereval.running.early_stop import EarlyStopWatch
from pytest_codereval.sandbox.protocol import ProcessResult
from pytest_codereval.sandbox.workspace import Workspace
from pytest_codereval.task.models import Task
from pytest_codereval.task.task_rules import load_findings
from pytest_codereval.trajectory.model import NOTHING_USED, Event, ModelCall, ToolCall, Trajectory

from .outcome import Outcome, Vector

STATUSES = {"ok": "success", "error": "error"}


def task_of(criteria: list[dict[str, Any]], agent: str | None, limits: Mapping[str, Any] | None, **fields: Any) -> Task:
    """Return the task of a vector. Raises ValidationError."""
    content: dict[str, Any] = {
        "task_id": "t",
        "description": "d",
        "initial_prompt": None if agent == "none" else "p",
        "agent": {"type": agent} if agent is not None else None,
        "success_criteria": [{"description": _described(criterion), **criterion} for criterion in criteria],
        "run_limits": limits,
        **fields,
    }
    return Task.model_validate({key: value for key, value in content.items() if value is not None})


def _described(criterion: Mapping[str, Any]) -> str:
    return f"{criterion['skill_name']} activation" if "skill_name" in criterion else "command check"


def early_stop_validate(vector: Vector) -> Outcome:
    """Load the task, and choose its agent, which is done before anything is spent."""
    simulation = {"enabled": True, "persona": "p", "goal": "g"} if vector["simulation"] else None
    try:
        task = task_of(vector["criteria"], vector["agent"], vector["run_limits"], simulation=simulation)
        errors, _ = load_findings(task)
        agents.choose(task, override=None, default=None)
    except ValidationError as error:
        return Outcome("refused", reason=str(error))
    except TrialError as error:
        if error.cause is Cause.NO_AGENT:
            return Outcome("refused", reason=str(error))
    if errors:
        return Outcome("refused", reason=errors[0].message)
    return Outcome("answered", {"accepted": True})


def early_stop(vector: Vector, *, fails: bool = False) -> Outcome:
    """Show the watch the events one after the other; `fails` lets every look go wrong."""
    limits = {"max_turns": vector["max_turns"], "stop_early_gate_threshold": vector["gate_threshold"]}
    try:
        what = watchlist(task_of(vector["armed"], "claude-code", limits))
    except ValidationError as error:
        return Outcome("refused", reason=str(error))
    assert what is not None, "every vector arms a criterion"
    told: dict[tuple[type, str], Event] = {}
    with tempfile.TemporaryDirectory() as root:

        def see() -> Evidence:
            if fails:
                raise RuntimeError("a fault of the test")
            return Evidence(Workspace(Path(root).resolve()), Trajectory(tuple(told.values())), InvocationLog(), _shell)

        def turns() -> int:
            return sum(isinstance(event, ModelCall) for event in told.values())

        watch = EarlyStopWatch(what, see, turns, vector["max_turns"])
        for index, event in enumerate(_events(vector["events"])):
            if event is None:
                watch.begin_run()
                continue
            told[type(event), event.id] = event
            if not watch.goes_on(event):
                return Outcome("answered", _answer(watch, index))
    answer = {"fired": False, "first_stop_event_index": None, "disarmed": bool(watch.fault), "info": None}
    return Outcome("answered", answer, watch.fault)


def _events(events: list[Mapping[str, Any]]) -> Iterator[ModelCall | ToolCall | None]:
    """The events of a vector as an agent tells them, None for the start of a run.

    An id that comes again once its call has ended is another call; one whose end is unresolved has never ended.
    """
    ended: dict[str, int] = {}
    for index, event in enumerate(events):
        if event["kind"] == "agent_start":
            yield None
        elif event["kind"] == "turn_start":
            yield ModelCall(f"turn-{index}", None, NOTHING_USED)
        else:
            number = ended.setdefault(event["id"], 0)
            status: Any = STATUSES.get(event.get("status", ""), "unknown")
            ended[event["id"]] += status != "unknown"
            time = None if status == "unknown" else float(index)
            yield ToolCall(f"{event['id']}-{number}", event["tool"], event["parameters"], status, ended=time)


def _answer(watch: EarlyStopWatch, index: int) -> dict[str, Any]:
    stop = watch.stop
    assert stop is not None
    info = {
        "armed_criteria": [f"{item.criterion.type}: {item.criterion.description}" for item in watch.what.watched],
        "deciding_criterion_type": stop.criterion["type"],
        "gate_threshold": stop.gate_threshold,
        "reason": stop.reason.value,
        "sdk_turn_index": stop.turn,
        "tool_call_index": stop.tool_call,
        "turns_remaining_at_stop": stop.turns_remaining,
    }
    return {"fired": True, "first_stop_event_index": index, "disarmed": False, "info": info}


def _shell(command: str, *, timeout: float, shims: bool = False) -> ProcessResult:
    raise AssertionError("no command is run while the agent works")
