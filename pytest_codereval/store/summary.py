"""What reports say of a trial, made from the facts of its record, whether it ran or is stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..trajectory.model import Usage

SHOWN_LEAKS = 3


def summary_of(facts: Mapping[str, Any], folder: Path | None, *, script_left_out: bool = False) -> dict[str, object]:
    """The summary of a trial as plain data. `facts` is its record or the part of it that is not evidence.

    `folder` is the trial's in the run directory, None before it has one. Costs are in US dollars, None when unknown.
    """
    trial, environment = facts["trial"], facts.get("environment") or {}
    stored = facts.get("stored")
    new = {} if stored else facts
    agent, user = _spent(new, "spending"), _spent(new, "simulated_user_spending")
    judges = _spent(facts, "judge_spending")
    return {
        "trial": trial["id"],
        "task_id": trial["task_id"],
        "row_id": trial["row_id"],
        "variant": trial.get("variant"),
        "repeat": trial["repeat"],
        "repeats": trial["repeats"],
        "rows": trial.get("rows", 1),
        "targets": trial.get("targets") or {},
        "status": facts["status"],
        "cause": facts["cause"],
        "message": facts["message"],
        "score": facts.get("score"),
        "tokens": agent[0],
        "cost_usd": agent[1],
        "cost_complete": agent[2],
        "simulated_user_cost_usd": user[1],
        "simulated_user_cost_complete": user[2],
        "judge_cost_usd": judges[1],
        "judge_cost_complete": judges[2],
        "attempts": len(facts.get("earlier_attempts") or ()) + 1,
        "stopped": facts.get("stopped"),
        "early_stop": facts.get("early_stop"),
        "driver": environment.get("driver"),
        "isolation": environment.get("isolation"),
        "record": str(folder / "record.json") if folder else None,
        "script_left_out": script_left_out,
        "stored": stored,
        "rerun_of": facts.get("rerun_of"),
        "judged": facts.get("judged", True),
        **_leaks(facts.get("leaks")),
        "criteria": list(facts.get("criteria") or ()),
        "post_failure": list(facts.get("post_failure_criteria") or ()),
    }


def _spent(facts: Mapping[str, Any], key: str) -> tuple[int | None, float | None, bool]:
    """Tokens, cost, and whether the cost is all of it. What was never begun cost nothing."""
    spending = facts.get(key)
    if spending is None:
        return None, None, True
    return Usage(**spending["usage"]).total_tokens, spending["usage"]["cost_usd"], spending["cost_complete"]


def _leaks(taint: Mapping[str, Any] | None) -> dict[str, object]:
    if taint is None:
        return {"leaks": None, "leak_findings": [], "leak_warnings": []}
    findings = [f"{each['where']}: {each['what']}" for each in taint["findings"][:SHOWN_LEAKS]]
    return {"leaks": taint["state"], "leak_findings": findings, "leak_warnings": list(taint["warnings"][:SHOWN_LEAKS])}
