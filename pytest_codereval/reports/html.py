"""A run as one HTML page that needs nothing else: no script, no network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ..text import clean, shorten
from .markdown import FIGURE_HEADS, figure_rows
from .run_report import RunReport, TrialReport
from .table import ADVISORY, counts

LONGEST_TEXT = 4000
LONGEST_VALUE = 1000
MOST_EVENTS = 200


def run_page(run: RunReport) -> str:
    """The whole run; texts of agents are escaped and cut."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pytest_codereval", "reports/templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = environment.get_template("run.html.j2").render(
        name=run.path.name,
        warnings=run.warnings,
        heads=FIGURE_HEADS,
        figures=figure_rows(run),
        gates=run.gates,
        trials=[_trial(trial) for trial in run.trials],
        advisory=ADVISORY,
    )
    return clean(page)


def _trial(trial: TrialReport) -> dict[str, Any]:
    record, summary = trial.record, trial.summary
    trajectory = record.get("trajectory") or {}
    return {
        "id": summary["trial"],
        "status": trial.status.value,
        "cause": summary["cause"],
        "message": shorten(summary["message"], LONGEST_TEXT),
        "score": summary["score"],
        "facts": dict(_facts(trial)),
        "criteria": [_criterion(each) for each in summary["criteria"]],
        "post_failure": [_criterion(each) for each in summary["post_failure"]],
        "prompt": shorten(str(record.get("prompt") or ""), LONGEST_TEXT),
        "answer": shorten(str(trajectory.get("final_answer") or ""), LONGEST_TEXT),
        "tools": list(_tools(trajectory)),
        "invocations": list(_invocations(record)),
        "lineage": (record.get("task") or {}).get("lineage") or {},
    }


def _facts(trial: TrialReport) -> Iterator[tuple[str, object]]:
    summary, record = trial.summary, trial.record
    yield "agent", record.get("agent")
    yield "model", record.get("model")
    yield "driver", summary["driver"]
    yield "turns", trial.turns
    yield "tokens", summary["tokens"]
    if summary["cost_usd"] is not None:
        yield "cost", f"${summary['cost_usd']:.4f}" + ("" if summary["cost_complete"] else " or more")
    if summary["judge_cost_usd"]:
        yield "judges", f"${summary['judge_cost_usd']:.4f}"
    if trial.duration is not None:
        yield "duration", f"{trial.duration:.1f} s"
    if summary["attempts"] > 1:
        yield "attempts", summary["attempts"]
    yield "stopped at", summary["stopped"]
    yield "leaks", summary["leaks"]
    yield "record", trial.folder / "record.json"


def _criterion(criterion: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: shorten(criterion[name], LONGEST_TEXT) for name in ("reason", "details", "note", "description")}
    return {**criterion, **texts, "counts": counts(criterion)}


def _tools(trajectory: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    calls = [event for event in trajectory.get("events") or () if event.get("kind") == "ToolCall"]
    for call in calls[:MOST_EVENTS]:
        yield {
            "name": str(call["name"]),
            "status": str(call["status"]),
            "parameters": shorten(json.dumps(call["parameters"], ensure_ascii=False), LONGEST_VALUE),
            "output": shorten(str(call["output"]), LONGEST_VALUE),
        }
    if len(calls) > MOST_EVENTS:
        yield {"name": f"and {len(calls) - MOST_EVENTS} more", "status": "", "parameters": "", "output": ""}


def _invocations(record: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    calls = (record.get("invocations") or {}).get("calls") or ()
    for call in calls[:MOST_EVENTS]:
        argv = json.dumps([call["tool"], *call["argv"]], ensure_ascii=False)
        yield {"argv": shorten(argv, LONGEST_VALUE), "exit": str(call.get("exit_status"))}
    if len(calls) > MOST_EVENTS:
        yield {"argv": f"and {len(calls) - MOST_EVENTS} more", "exit": ""}
