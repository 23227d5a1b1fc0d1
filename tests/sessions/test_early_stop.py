"""Whole sessions whose runs are stopped early: by what, when, and what then decides."""

from __future__ import annotations

import importlib.util
import shutil
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from pytest_codereval.sandbox import drivers
from tests.fakes import FakeAnthropic, Request, call, say, turn
from tests.fakes.turns import Entry

from ..plugin.conftest import Repo
from .models import AGENT, MODEL, OPTIONS, Scripts, ask, first_prompt

NEVER: dict[str, Any] = {"min_count": 0, "max_count": 0}
SKILL = {"type": "skill_triggered", "description": "uses it", "skill_name": "dates", "expected_skill": "dates"}
STOPS = {**SKILL, "stop_early": {"on_pass": "stop"}}
DELETES = {"type": "cli_called", "description": "deletes nothing", "tool": "uip", "verb": "delete", **NEVER}
GETS = {"type": "cli_called", "description": "gets it", "tool": "uip", "verb": "get"}
LATE = {"type": "file_exists", "description": "the last step", "path": "late.txt"}
BROKEN = {"type": "broken", "description": "it breaks", "stop_early": {"on_pass": "stop"}}
RECORDS = {"record_cli": [{"tool": "uip"}]}

USE: dict[str, Any] = {"tool": {"name": "Skill", "parameters": {"skill": "dates"}}}
LAST: dict[str, Any] = {"bash": "echo > late.txt"}
STEPS = ({"bash": "ls"}, USE, {"bash": "ls"}, LAST)

CONFTEST = """
from typing import Literal

from pytest_codereval.criteria.contract import Judgement
from pytest_codereval.criteria.registry import CriterionKind
from pytest_codereval.task.criterion import Criterion, StopEarly


class Broken(Criterion):
    type: Literal["broken"] = "broken"
    stop_early: StopEarly | None = None


def look(criterion, evidence):
    raise RuntimeError("out of order")


def pytest_codereval_criteria(config):
    return [CriterionKind(Broken, lambda criterion, evidence: Judgement(1.0), look)]
"""


def _early(record: dict[str, Any]) -> tuple[Any, ...]:
    """Reason, deciding criterion, turn and tool call."""
    stop = record["early_stop"]
    return (stop["reason"], stop["criterion"]["type"], stop["turn"], stop["tool_call"]) if stop else ()


def _marks(record: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    return {each["type"]: (each["verdict"], each["advisory"]) for each in record["criteria"]}


def test_what_stops_a_run_and_what_decides_then(repo: Repo) -> None:
    repo.file("conftest.py", CONFTEST)
    repo.script("stops", *STEPS, success_criteria=[STOPS, LATE], run_limits={"max_turns": 9})
    repo.script("switched-off", *STEPS, success_criteria=[STOPS, LATE], run_limits={"stop_early": False})
    late = {**STOPS, "stop_early": {"decide_within": 1}}
    repo.script("late", *STEPS, success_criteria=[late, LATE], run_limits={"max_turns": 9})
    repo.script("breaks", *STEPS, success_criteria=[STOPS, BROKEN, LATE])
    calls = {"bash": "uip get a; uip delete a"}
    repo.script("forbidden", calls, LAST, success_criteria=[DELETES, LATE], sandbox=RECORDS, stop_early=True)
    repo.script("decided", calls, USE, LAST, success_criteria=[GETS, SKILL], sandbox=RECORDS, stop_early=True)
    repo.script("undecided", calls, USE, LAST, success_criteria=[GETS, LATE], sandbox=RECORDS, stop_early=True)
    talk = ({"bash": "ls"}, {"listen": True}, USE, LAST, {"listen": True}, LAST)
    prompts = {"follow_up_prompts": ["and then", "at last"], "run_limits": {"max_turns": 5}}
    repo.script("second-prompt", *talk, success_criteria=[STOPS], **prompts)
    result = repo.run("-v")
    records = {path.stem: repo.record(path.stem) for path in (repo.path / "tasks").iterdir()}

    _check_stops(repo, records, result)
    assert _early(records["switched-off"]) == ()
    assert records["switched-off"]["status"] == "passed"
    assert records["switched-off"]["trajectory"]["turns"] == 4
    assert _early(records["late"]) == ("decision_budget_exceeded", "skill_triggered", 1, 1)
    assert records["late"]["status"] == "failed"
    assert "was not decided in time at tool call 1" in records["late"]["message"]
    assert _early(records["breaks"]) == ()
    assert records["breaks"]["early_stop_fault"] == "RuntimeError: out of order"
    assert records["breaks"]["status"] == "passed", "a fault of the watch does no harm to the trial"
    assert _early(records["forbidden"]) == ("decided", "cli_called", 1, 1)
    assert records["forbidden"]["status"] == "failed"
    assert records["forbidden"]["message"].startswith("1 of 1 criteria failed: cli_called-deletes-nothing;")
    assert _marks(records["forbidden"]) == {"cli_called": ("fail", False), "file_exists": ("fail", True)}
    assert _early(records["decided"]) == ("decided", "skill_triggered", 2, 2)
    assert (records["decided"]["status"], records["decided"]["early_stop"]["armed"]) == (
        "passed",
        ["cli_called-gets-it", "skill_triggered-uses-it"],
    )
    assert _early(records["undecided"]) == (), "what nobody can know early is waited for"
    assert records["second-prompt"]["dialogue"]["ended"] == "stopped_early"
    assert [each["user"] for each in records["second-prompt"]["dialogue"]["exchanges"]] == ["greet", "and then"]
    assert records["second-prompt"]["early_stop"]["turns_remaining"] == 4, "of this run of the agent"


def _check_stops(repo: Repo, records: dict[str, Any], result: pytest.RunResult) -> None:
    record = records["stops"]
    assert _early(record) == ("criterion_passed", "skill_triggered", 2, 2)
    assert record["early_stop"]["turns_remaining"] == 7
    assert record["trajectory"]["turns"] == 2
    assert (record["status"], record["cause"]) == ("passed", None)
    assert _marks(record) == {"skill_triggered": ("pass", False), "file_exists": ("fail", True)}
    told = "skill_triggered-uses-it passed at tool call 2 (turn 2)"
    result.stdout.fnmatch_lines(["*(fail)*file_exists-the-last-step*", f"*stopped early: {told}"])
    cases = {f"{case.get('classname')}.{case.get('name')}": case for case in repo.suite().iter("testcase")}
    trial, advice = cases["tasks.stops.yaml.stops"], cases["tasks.stops.yaml.stops.file_exists-the-last-step"]
    forbidden = cases["tasks.forbidden.yaml.forbidden.file_exists-the-last-step"]
    for case in (trial, advice, forbidden):
        assert [child.tag for child in case if child.tag in ("failure", "error", "skipped")] == []
    assert _properties(trial)["codereval.early_stop"] == told
    assert _properties(advice)["codereval.advisory"] == "advisory: the run was stopped early"
    assert _properties(advice)["codereval.reason"] == "late.txt: missing"


def _properties(case: ET.Element) -> dict[str | None, str | None]:
    return {each.get("name"): each.get("value") for each in case.iter("property")}


def test_the_same_event_stops_under_each_driver(repo: Repo) -> None:
    found = drivers.driver("bubblewrap").availability()
    if not found.usable:
        pytest.skip(f"no bubblewrap: {found.reason}")
    steps = [{"bash": "uip get a"}, {"bash": "uip delete a & uip list; wait"}, {"bash": "uip delete b"}, LAST]
    armed = {**DELETES, "stop_early": {}}
    for driver in ("tempdir", "bubblewrap"):
        repo.script(driver, *steps, success_criteria=[armed, LATE], sandbox={**RECORDS, "driver": driver})
    repo.run()
    stops = {driver: repo.record(driver)["early_stop"] for driver in ("tempdir", "bubblewrap")}
    assert all(stop.pop("elapsed") >= 0 for stop in stops.values())
    assert stops["tempdir"] == stops["bubblewrap"]
    assert _early(repo.record("tempdir"))[0] == "criterion_failed"


def test_agents_that_ask_a_model_are_stopped(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of them is Claude Code itself, where it is installed."""
    get, delete, listing = (call("Bash", command=f"uip {verb}") for verb in ("get a", "delete a", "list"))
    plays = {"loop": [get, delete, listing, say("done")], "several": [turn(get, delete, listing), say("done")]}
    names = dict.fromkeys(plays, AGENT)
    if shutil.which("claude") or importlib.util.find_spec("claude_agent_sdk"):
        names["claude"] = {"type": "claude-code", "model": MODEL, "permission_mode": "bypassPermissions"}
    for name, agent in names.items():
        fields = {"agent": agent, "sandbox": RECORDS, "run_limits": {"max_usd": 5, "max_turns": 9}}
        repo.task(name, initial_prompt=name, success_criteria=[{**DELETES, "stop_early": {}}], **fields)
    scripts = Scripts(plays)
    claude = iter([get, delete])

    def play(request: Request) -> Entry:
        asks = any(name in first_prompt(request) for name in plays)
        return scripts(request) if asks else next(claude, None) or listing

    with FakeAnthropic([play], loop=True) as fake:
        ask(fake, monkeypatch)
        repo.run(*OPTIONS)
    assert _early(repo.record("loop")) == ("criterion_failed", "cli_called", 2, 2)
    assert (scripts.calls("loop"), scripts.calls("several")) == (2, 1)
    for name in names:
        record = repo.record(name)
        assert _early(record)[::3] == (
            "criterion_failed",
            2 if name != "several" else record["early_stop"]["tool_call"],
        )
        assert (name, record["status"], record["cause"]) == (name, "failed", None)
        assert record["earlier_attempts"] == []
