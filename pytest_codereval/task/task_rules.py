"""Rules that hold between the blocks of a task."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from .agent_models import ScriptAgent
from .base import Finding, Location
from .cli_models import DEFAULT_LOG, CliCalled, CliFacets
from .command_models import CommandExecuted, RunCommand
from .criterion import Criterion
from .early_stop_rules import early_stop_doubts, early_stop_findings
from .fields import ROW_MARK
from .file_models import ReferenceComparison
from .judge_models import JudgeMaterial
from .nearest import hint
from .task_ids import ROW_ID, task_id_error

if TYPE_CHECKING:
    from .models import Task

ROW_FIELD = re.compile(r"\$\{row\.([^{}]+)\}")
"""What a row of the dataset fills in."""

REFERENCE_VARIABLE = re.compile(r"\$(?:REFERENCE_DIR(?![A-Za-z0-9_])|\{REFERENCE_DIR\})")
_AGENT_TEXTS = (
    *("initial_prompt", "initial_prompt_file", "follow_up_prompts"),
    *("agent", "simulation", "sandbox", "pre_run"),
)
_SPOKEN = ("initial_prompt", "follow_up_prompts", "simulation")
_LEAK = "$REFERENCE_DIR in what the agent gets would give the reference away; only criteria and post_run may use it"


def task_findings(task: Task) -> Iterator[Finding]:
    """What is wrong with a task whatever an experiment or the command line adds to it."""
    yield from _identity_findings(task)
    yield from _prompt_findings(task)
    yield from reference_leaks({name: getattr(task, name) for name in _AGENT_TEXTS})
    for index, criterion in enumerate(task.success_criteria):
        yield from criterion_findings(task, index, criterion)
    yield from order_findings(task.success_criteria)


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
    simulated = _is_simulated(task)
    if len(prompts) == 2:
        yield Finding(("initial_prompt_file",), "initial_prompt and initial_prompt_file exclude each other")
    if _agent_type(task) == "none":
        for name in (*prompts, *(["follow_up_prompts"] if task.follow_up_prompts else [])):
            yield Finding((name,), "with agent type none nobody reads a prompt")
        if simulated:
            yield Finding(("simulation",), "with agent type none there is nobody to talk to")
    elif not prompts and not simulated:
        yield Finding((), "initial_prompt is missing (or initial_prompt_file, or an enabled simulation)")
    elif task.initial_prompt is not None and not task.initial_prompt.strip():
        yield Finding(("initial_prompt",), "the prompt is empty")
    if simulated and task.follow_up_prompts:
        message = "an enabled simulation writes all that the user says after the first prompt; expected one of the two"
        yield Finding(("follow_up_prompts",), message)


def criterion_findings(task: Task, index: int, criterion: Criterion) -> Iterator[Finding]:
    """What is wrong with one criterion in this task."""
    place: Location = ("success_criteria", index)
    if _agent_type(task) == "none" and criterion.needs_trajectory:
        yield Finding(place, f"{criterion.type} judges what an agent did, but the agent's type is none")
    if criterion.suite_thresholds and task.dataset is None and task.suite_id is None:
        yield Finding((*place, "suite_thresholds"), "thresholds over rows need a dataset")
    if task.reference is None:
        yield from _missing_reference(place, criterion)
    declaring = {entry.tool: entry.declared() for entry in task.sandbox.record_cli or () if entry.options}
    for inner, tool, facets in _facets(criterion) if declaring else ():
        if tool in declaring:
            found = facets.declared_findings(declaring[tool])
        elif tool is None and getattr(criterion, "log", None) == DEFAULT_LOG:
            advice = "; without tool its calls are meant too, so name the tool"
            found = facets.parsing_findings(next(iter(declaring)), advice)
        else:
            continue
        yield from (Finding((*place, *inner, *finding.location), finding.message) for finding in found)


def _facets(criterion: Criterion) -> Iterator[tuple[Location, str | None, CliFacets]]:
    """The patterns of command lines in a criterion, each with its place and the tool that it is about."""
    if isinstance(criterion, CliCalled):
        yield from criterion.patterns()
    elif isinstance(criterion, CommandExecuted) and criterion.command is not None:
        yield ("command",), criterion.command.tool, criterion.command


def order_findings(criteria: Sequence[Criterion]) -> Iterator[Finding]:
    """What is wrong with the names in `after` and `before`. Names that wait for a row are left for later."""
    named = [criterion.name for criterion in criteria if isinstance(criterion, CliCalled) and criterion.name]
    waiting = any(ROW_MARK in name for name in named)
    for index, criterion in enumerate(criteria):
        if not isinstance(criterion, CliCalled):
            continue
        for key in ("after", "before"):
            name = getattr(criterion, key)
            if name is None or ROW_MARK in name or (waiting and name not in named):
                continue
            if error := _order_error(criterion, name, named, criteria):
                yield Finding(("success_criteria", index, key), error)


def _order_error(criterion: CliCalled, name: str, named: list[str], criteria: Sequence[Criterion]) -> str | None:
    if name not in named:
        known = f" (names: {', '.join(sorted(set(named)))})" if named else "; give it a name"
        return f"no cli_called criterion is named {name!r}{hint(name, named)}{known}"
    if name == criterion.name:
        return "a criterion cannot come before or after itself"
    if named.count(name) > 1:
        return f"{named.count(name)} cli_called criteria are named {name!r}"
    other = next(item for item in criteria if isinstance(item, CliCalled) and item.name == name)
    if ROW_MARK not in criterion.log + other.log and other.log != criterion.log:
        return f"{name!r} looks at another log ({other.log}), so nobody knows what came first"
    if criterion.name is not None and criterion.name in _names_behind(name, criteria):
        return f"{name!r} is itself ordered by this criterion: a circle tells no order"
    return None


def _names_behind(name: str, criteria: Sequence[Criterion]) -> set[str]:
    """All names that the criterion of this name is ordered by, directly or through others."""
    ordered_by = {c.name: (c.after, c.before) for c in criteria if isinstance(c, CliCalled)}
    pending, found = [name], set[str]()
    while pending:
        for other in ordered_by.get(pending.pop(), ()):
            if other is not None and other not in found:
                found.add(other)
                pending.append(other)
    return found


def tools_with_stdin(task: Task) -> frozenset[str]:
    """The recorded tools whose standard input a criterion asks for; one that names no tool asks it of all."""
    recorded = frozenset(entry.tool for entry in task.sandbox.record_cli or ())
    asked = frozenset().union(*(c.stdin_tools() for c in task.success_criteria if isinstance(c, CliCalled)))
    return recorded if None in asked else frozenset(tool for tool in asked if tool in recorded)


def _missing_reference(place: Location, criterion: Criterion) -> Iterator[Finding]:
    why = "the task has no reference"
    if isinstance(criterion, ReferenceComparison):
        yield Finding(place, f"{why} to compare with")
    elif isinstance(criterion, RunCommand) and REFERENCE_VARIABLE.search(criterion.command):
        yield Finding((*place, "command"), f"$REFERENCE_DIR is used, but {why}")
    elif isinstance(criterion, JudgeMaterial):
        for number, path in enumerate(criterion.files):
            if path.startswith(("$REFERENCE_DIR", "${REFERENCE_DIR}")):
                yield Finding((*place, "files", number), f"$REFERENCE_DIR is used, but {why}")


def reference_leaks(value: Any, location: Location = ()) -> Iterator[Finding]:
    """Findings for every text at any depth of `value` that names the reference's variable."""
    for place, text in _texts(value, location):
        if "REFERENCE_DIR" in text and REFERENCE_VARIABLE.search(text):
            yield Finding(place, _LEAK)


def _unfilled_rows(task: Task) -> Iterator[Finding]:
    """Fields of a row in what is said to the agent, where there are no rows."""
    if task.dataset is not None or task.suite_id is not None:
        return
    for place, text in _texts({name: getattr(task, name) for name in _SPOKEN}, ()):
        if field := ROW_FIELD.search(text):
            yield Finding(place, f"there is no dataset, so {field[0]} is never filled in")


def _texts(value: Any, location: Location) -> Iterator[tuple[Location, str]]:
    """Every text at any depth of `value`, with its place."""
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, BaseModel):
        yield from _texts(value.__dict__, location)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if item is not None:
                yield from _texts(item, (*location, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _texts(item, (*location, index))


def load_findings(task: Task) -> tuple[list[Finding], list[Finding]]:
    """Errors and warnings about a task that is run as its file stands."""
    errors: list[Finding] = []
    warnings: list[Finding] = []
    if not task.success_criteria:
        errors.append(Finding(("success_criteria",), "the list is empty, so nothing would be judged"))
    errors.extend(early_stop_findings(task))
    errors.extend(_listen_findings(task))
    errors.extend(_unfilled_rows(task))
    warnings.extend(_doubts(task))
    warnings.extend(early_stop_doubts(task))
    for index, criterion in enumerate(task.success_criteria):
        if isinstance(criterion, CliCalled):
            finding, certain = recorder_finding(task, index, criterion)
            if finding is not None:
                (errors if certain else warnings).append(finding)
    return errors, warnings


def _doubts(task: Task) -> Iterator[Finding]:
    """What can hardly be meant by recorded tools and by criteria about command lines."""
    for index, entry in enumerate(task.sandbox.record_cli or ()):
        for place, message in entry.warnings():
            yield Finding(("sandbox", "record_cli", index, *place), message)
    for index, criterion in enumerate(task.success_criteria):
        for inner, tool, facets in _facets(criterion):
            for place, message in facets.verb_warnings(tool) if tool is not None else ():
                yield Finding(("success_criteria", index, *inner, *place), message)


def _listen_findings(task: Task) -> Iterator[Finding]:
    """Steps of a script that no prompt would reach, and prompts that no step would answer."""
    if not isinstance(task.agent, ScriptAgent):
        return
    listens = [index for index, step in enumerate(task.agent.steps) if step.listen]
    if task.simulation is not None and task.simulation.enabled:
        most = task.simulation.max_turns - 1
        told = f"with simulation.max_turns {task.simulation.max_turns} no prompt comes after this step"
    else:
        most = len(task.follow_up_prompts)
        told = f"no prompt comes after this step: follow_up_prompts has {most}"
        if len(listens) < most:
            message = (
                f"the script ends its work before this prompt: it has {len(listens)} listen steps; expected {most}"
            )
            yield Finding(("follow_up_prompts", len(listens)), message)
    yield from (Finding(("agent", "steps", index, "listen"), told) for index in listens[most : most + 1])


def recorder_finding(task: Task, index: int, criterion: CliCalled) -> tuple[Finding | None, bool]:
    """What is wrong with where the calls come from, and whether that is certain."""
    if criterion.log != DEFAULT_LOG:
        return None, False
    sandbox = task.sandbox
    recorded = [entry.tool for entry in sandbox.record_cli or ()]
    certain = not (sandbox.mock_path_dirs or sandbox.template_sources)
    place: Location = ("success_criteria", index)
    unknowable = next(criterion.recorder_only(), None)
    if not recorded and unknowable is not None:
        message = f"only the recorder knows the {unknowable[-1]} of a call: name the tool in sandbox.record_cli"
        return Finding((*place, *unknowable), message), True
    if not recorded and not criterion.given("log"):
        message = "nothing records calls: name the tool in sandbox.record_cli, or the log of a mock of yours in log"
        return Finding(place, message), certain
    for inner, tool, _ in criterion.patterns():
        if recorded and tool is not None and tool not in recorded and ROW_MARK not in tool:
            message = f"nobody records {tool!r}{hint(tool, recorded)} (recorded: {', '.join(recorded)})"
            where = (*place, "tool") if criterion.tool == tool else (*place, *inner, "tool")
            return Finding(where, message), certain
    return None, False


def _is_simulated(task: Task) -> bool:
    return task.simulation is not None and task.simulation.enabled


def _agent_type(task: Task) -> str | None:
    return task.agent.type if task.agent is not None else None
