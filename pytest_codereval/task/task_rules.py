"""Rules that hold between the blocks of a task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from .base import Finding, Location
from .cli_models import DEFAULT_LOG, CliCalled
from .command_models import RunCommand
from .criterion import Criterion
from .file_models import ReferenceComparison
from .judge_models import JudgeContext, SystemOneJudge
from .nearest import hint
from .task_ids import ROW_ID, task_id_error

if TYPE_CHECKING:
    from .models import Task

REFERENCE_VARIABLE = re.compile(r"\$(?:REFERENCE_DIR(?![A-Za-z0-9_])|\{REFERENCE_DIR\})")
_AGENT_TEXTS = ("initial_prompt", "initial_prompt_file", "agent", "simulation", "sandbox", "pre_run")
_LEAK = "$REFERENCE_DIR in what the agent gets would give the reference away; only criteria and post_run may use it"


def task_findings(task: Task) -> Iterator[Finding]:
    """What is wrong with a task whatever an experiment or the command line adds to it."""
    yield from _identity_findings(task)
    yield from _prompt_findings(task)
    yield from reference_leaks({name: getattr(task, name) for name in _AGENT_TEXTS})
    for index, criterion in enumerate(task.success_criteria):
        yield from criterion_findings(task, index, criterion)


def _identity_findings(task: Task) -> Iterator[Finding]:
    name, slash, row = task.task_id.partition("/")
    if slash and (task.suite_id is None or task.row_id is None):
        yield Finding(("task_id",), "a '/' stands only in ids of dataset rows (with suite_id and row_id)")
    elif error := task_id_error(name):
        yield Finding(("task_id",), error)
    elif slash and not ROW_ID.fullmatch(row):
        yield Finding(("task_id",), f"the row's part {row[:80]!r} is no id of a row")


def _prompt_findings(task: Task) -> Iterator[Finding]:
    prompts = [name for name in ("initial_prompt", "initial_prompt_file") if getattr(task, name) is not None]
    simulated = task.simulation is not None and task.simulation.enabled
    if len(prompts) == 2:
        yield Finding(("initial_prompt_file",), "initial_prompt and initial_prompt_file exclude each other")
    if _agent_type(task) == "none":
        for name in prompts:
            yield Finding((name,), "with agent type none nobody reads a prompt")
        if simulated:
            yield Finding(("simulation",), "with agent type none there is nobody to talk to")
    elif not prompts and not simulated:
        yield Finding((), "initial_prompt is missing (or initial_prompt_file, or an enabled simulation)")
    elif task.initial_prompt is not None and not task.initial_prompt.strip():
        yield Finding(("initial_prompt",), "the prompt is empty")


def criterion_findings(task: Task, index: int, criterion: Criterion) -> Iterator[Finding]:
    """What is wrong with one criterion in this task."""
    place: Location = ("success_criteria", index)
    if _agent_type(task) == "none" and criterion.needs_trajectory:
        yield Finding(place, f"{criterion.type} judges what an agent did, but the agent's type is none")
    if criterion.suite_thresholds and task.dataset is None and task.suite_id is None:
        yield Finding((*place, "suite_thresholds"), "thresholds over rows need a dataset")
    if task.reference is None:
        yield from _missing_reference(place, criterion)


def _missing_reference(place: Location, criterion: Criterion) -> Iterator[Finding]:
    why = "the task has no reference"
    if isinstance(criterion, ReferenceComparison):
        yield Finding(place, f"{why} to compare with")
    elif isinstance(criterion, RunCommand) and REFERENCE_VARIABLE.search(criterion.command):
        yield Finding((*place, "command"), f"$REFERENCE_DIR is used, but {why}")
    elif isinstance(criterion, JudgeContext | SystemOneJudge):
        for number, path in enumerate(criterion.files):
            if path.startswith(("$REFERENCE_DIR", "${REFERENCE_DIR}")):
                yield Finding((*place, "files", number), f"$REFERENCE_DIR is used, but {why}")


def reference_leaks(value: Any, location: Location = ()) -> Iterator[Finding]:
    """Findings for every text at any depth of `value` that names the reference's variable."""
    if isinstance(value, str):
        if "REFERENCE_DIR" in value and REFERENCE_VARIABLE.search(value):
            yield Finding(location, _LEAK)
    elif isinstance(value, BaseModel):
        yield from reference_leaks(value.__dict__, location)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if item is not None:
                yield from reference_leaks(item, (*location, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from reference_leaks(item, (*location, index))


def load_findings(task: Task) -> tuple[list[Finding], list[Finding]]:
    """Errors and warnings about a task that is run as its file stands."""
    errors: list[Finding] = []
    warnings: list[Finding] = []
    if not task.success_criteria:
        errors.append(Finding(("success_criteria",), "the list is empty, so nothing would be judged"))
    errors.extend(_early_stop_findings(task))
    for index, criterion in enumerate(task.success_criteria):
        if isinstance(criterion, CliCalled):
            finding, certain = recorder_finding(task, index, criterion)
            if finding is not None:
                (errors if certain else warnings).append(finding)
    return errors, warnings


def _early_stop_findings(task: Task) -> Iterator[Finding]:
    limits = task.run_limits
    if limits is not None and limits.stop_early:
        message = "true was removed: a criterion's own stop_early block arms it; false switches all of them off"
        yield Finding(("run_limits", "stop_early"), message)
    armed = [i for i, c in enumerate(task.success_criteria) if getattr(c, "stop_early", None) is not None]
    if not armed or (limits is not None and limits.stop_early is False):
        return
    if task.simulation is not None and task.simulation.enabled:
        yield Finding(("success_criteria", armed[0], "stop_early"), "not together with an enabled simulation")
    if limits is not None and limits.stop_early_gate_threshold == 0:
        message = "expected more than 0 while a criterion has a stop_early block"
        yield Finding(("run_limits", "stop_early_gate_threshold"), message)


def recorder_finding(task: Task, index: int, criterion: CliCalled) -> tuple[Finding | None, bool]:
    """What is wrong with where the calls come from, and whether that is certain."""
    if criterion.log != DEFAULT_LOG:
        return None, False
    sandbox = task.sandbox
    recorded = [entry.tool for entry in sandbox.record_cli or ()]
    certain = not (sandbox.mock_path_dirs or sandbox.template_sources)
    place: Location = ("success_criteria", index)
    if not recorded and not criterion.given("log"):
        message = "nothing records calls: name the tool in sandbox.record_cli, or the log of a mock of yours in log"
        return Finding(place, message), certain
    if recorded and criterion.tool is not None and criterion.tool not in recorded and "${row." not in criterion.tool:
        message = f"nobody records {criterion.tool!r}{hint(criterion.tool, recorded)} (recorded: {', '.join(recorded)})"
        return Finding((*place, "tool"), message), certain
    return None, False


def _agent_type(task: Task) -> str | None:
    return task.agent.type if task.agent is not None else None
