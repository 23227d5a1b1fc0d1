"""Calls by an absolute path: whose shims are laid over the real programs, and what is said of the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.recorder.answering import Printed, ShimPlan
from pytest_codereval.recorder.shims import probe, shim
from pytest_codereval.store.record import describe_invocations

from .engine import Engine
from .shadowing import Shadow, Tool, box


def rule(when: dict[str, Any], **reply: Any) -> dict[str, Any]:
    return {"when": when, **reply}


class Coverable:
    """As much of a sandbox as covering needs."""

    def __init__(self) -> None:
        self.covered: dict[str, Path] = {}

    def cover(self, tool: str, shim: Path) -> bool:
        self.covered[tool] = shim
        return True


def test_a_shim_covers_what_is_never_run_for_real(shadow: Shadow) -> None:
    plans = (
        Tool("constant"),
        ShimPlan("rules", asks=True),
        ShimPlan("handler", asks=True, may_run_real=True),
        ShimPlan("passes", passthrough=True),
        *map(Tool, ("cat", "env", "dash")),
    )
    tools = shadow(*plans, answer=lambda request: Printed("rule 1"), interpreter="/bin/dash")
    sandbox: Any = Coverable()
    tools.recorder.cover(sandbox)
    assert sandbox.covered == {name: tools.bin / name for name in ("constant", "rules")}


def test_tools_with_a_real_program_in_reach_are_told(shadow: Shadow, tmp_path: Path) -> None:
    tools = shadow("uip", "tr", "wc")
    covered = tmp_path / "covered"
    covered.mkdir()
    (covered / "uip").hardlink_to(tools.bin / "uip")
    tools.recorder.discard_calls_so_far()
    for _ in range(2):
        tools.recorder.prove_reachable(box(tools, tmp_path, path=f"{tools.bin}:{covered}:/usr/bin:/bin"))
        log = tools.recorder.so_far()
        assert (log.uncovered_tools, log.faults) == ({"tr", "wc"}, ())
    assert describe_invocations(log)["uncovered_tools"] == ["tr", "wc"]


@pytest.mark.parametrize(
    ("tool", "may"),
    [
        ({"responses": [rule({"verb": "a"}, stdout="x")]}, False),
        ({"stdout_file": "reply.txt"}, False),
        ({"responses": [rule({"verb": "a"}, passthrough=True)]}, True),
        ({"responses": [rule({"verb": "a"}, handler="h")]}, True),
        ({"sequence": [{"stdout": "x"}, {"passthrough": True}]}, True),
        ({"handler": "h"}, True),
        ({"passthrough": True, "record_to": "c.jsonl"}, True),
    ],
)
def test_what_may_run_the_real_program(tmp_path: Path, tool: dict[str, Any], may: bool) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "reply.txt").write_text("x")
    (plan,) = Engine(tmp_path, tool, handlers={"h": lambda call: None}).answers.plans()
    assert plan.may_run_real is may


def test_nothing_is_asked_of_the_hosts_disk_for_a_foreign_system(
    shadow: Shadow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> str:
        raise AssertionError("the harness's own programs say nothing about another system")

    monkeypatch.setattr(shim, "find_env", fail)
    monkeypatch.setattr("pytest_codereval.recorder.recorder.find_interpreter", fail)
    tools = shadow(ShimPlan("tr", passthrough=True), interpreter="/bin/dash", foreign_system=True)
    assert tools.shell("echo a | tr a b").stdout == b"b\n"
    assert tools.drain().faults == ()


@pytest.mark.parametrize(
    ("described", "asked"),
    [({"image": {"id": "1"}}, [1, 1, 2, 2]), ({}, [1, 2, 3, 4])],
    ids=["known", "unknown"],
)
def test_foreign_systems_are_proven_each_for_itself(
    shadow: Shadow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, described: Mapping[str, Any], asked: list[int]
) -> None:
    monkeypatch.setattr(probe, "_proven", {})
    runs = []
    counts = []
    for number, other in enumerate(({}, {}, {"image": {"id": "2"}}, {"image": {"id": "2"}})):
        root = tmp_path / f"t{number}"
        tools = shadow("uip", root=root, interpreter="/bin/dash", foreign_system=True)
        sandbox = box(tools, root)
        sandbox.driver, sandbox.described = "docker", {**described, **(other if described else {})}
        tools.recorder.prove_reachable(sandbox)
        runs += sandbox.phases
        counts.append(len(runs))
    assert counts == asked
