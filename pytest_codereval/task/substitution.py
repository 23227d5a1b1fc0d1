"""Putting a row's values into prompts, criteria and recorded tools. Parts that come out alike are checked once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from ..errors import Problem, TaskFileError
from .agent_models import AgentConfig, ScriptAgent
from .base import Finding, Location, StrictModel
from .cli_models import CliCalled
from .criterion import Criterion
from .dataset import ALL_ROWS, Row, RowError, Sampling, rows_of, scalar_text
from .loader import LoadedTask
from .models import Task
from .nearest import hint
from .problems import Places, finding_problem, problems_of, shown_path
from .reply_models import RecordedTool
from .reply_tables import tool_findings
from .setting_models import Simulation
from .state_keys import state_findings, wait_for_rows
from .task_rules import ROW_FIELD, criterion_findings, order_findings, recorder_finding, reference_leaks
from .yaml_reader import read

_MOST_PROBLEMS = 20


class FieldError(Exception):
    """A `${row.field}` that the row cannot fill."""


def substitute(text: str, row: Mapping[str, Any]) -> str:
    """Return `text` with every `${row.field}` replaced. Raises FieldError for a missing or non-scalar value."""

    def value(match: re.Match[str]) -> str:
        field = match[1]
        if field not in row:
            raise FieldError(f"the row has no {field!r}{hint(field, row)}")
        found = scalar_text(row[field])
        if found is None:
            raise FieldError(f"the row's {field!r} is a list or mapping; expected text or a number")
        return found

    return ROW_FIELD.sub(value, text)


Made = dict[tuple[int, bool, tuple[str, ...]], StrictModel | None]
"""Parts of tasks with a row's values in them, by the part (its `id`), whether the agent is none, and the texts."""


def row_tasks(
    loaded: LoadedTask, sampling: Sampling = ALL_ROWS, made: Made | None = None
) -> Iterator[tuple[Row, Task]]:
    """Yield each row of the task's dataset with the task that it makes. Raises TaskFileError with all problems.

    `made` is kept between calls for the same file under several variants; when one of them raises, none may be used.
    """
    dataset = loaded.task.dataset
    if dataset is None:
        return
    try:
        rows = rows_of(dataset, loaded.path.parent, sampling)
    except RowError as error:
        problem = error.in_file() or _Problems(loaded).of(Finding(error.location, error.message))
        raise TaskFileError((problem,)) from None
    expander = _Expander(loaded, {} if made is None else made)
    tasks = [(row, expander.task(row)) for row in rows]
    expander.problems.raise_if_any()
    yield from ((row, task) for row, task in tasks if task is not None)


class _Problems:
    """The problems of one task file, each said once."""

    def __init__(self, loaded: LoadedTask) -> None:
        self._loaded = loaded
        self._path = shown_path(loaded.path)
        self._document: Places | None = loaded.places
        self._found: dict[tuple[Location, str], Problem] = {}

    @property
    def document(self) -> Places:
        if self._document is None:
            self._document = read(self._loaded.text)
        return self._document

    def of(self, finding: Finding) -> Problem:
        return finding_problem(self._path, self.document, finding)

    def add(self, finding: Finding, row: Row) -> None:
        key = (finding.location, finding.message)
        if key not in self._found and len(self._found) < _MOST_PROBLEMS:
            where = f"{row.file}:{row.line}" if row.file else f"row {row.id!r}"
            self._found[key] = self.of(Finding(finding.location, f"{finding.message} (with {where})"))

    def add_refused(self, error: ValidationError, model: type[StrictModel], place: Location, row: Row) -> None:
        for problem in problems_of(error, self._path, self.document, model, place):
            self._found.setdefault((place, problem.message), problem)

    def add_problem(self, problem: Problem) -> None:
        self._found.setdefault(((problem.path, problem.line, problem.column), problem.message), problem)

    def raise_if_any(self) -> None:
        if self._found:
            raise TaskFileError(tuple(self._found.values()))


class _Template:
    """A part of a task with places for a row's values."""

    def __init__(self, model: StrictModel, place: Location) -> None:
        self.model = model
        self.place = place
        self.data = model.model_dump(exclude_unset=True)
        if isinstance(model, Criterion):
            self.data["type"] = model.type
        self.leaves = tuple(_leaves(self.data, place))


def _templates(models: Iterable[StrictModel], place: Location) -> list[_Template]:
    return [_Template(model, (*place, index)) for index, model in enumerate(models)]


def _leaves(value: Any, location: Location) -> Iterator[tuple[Location, str]]:
    if isinstance(value, str):
        if ROW_FIELD.search(value):
            yield location, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, (*location, key))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, (*location, index))


def _filled(value: Any, row: Mapping[str, Any]) -> Any:
    if isinstance(value, str):
        return substitute(value, row)
    if isinstance(value, Mapping):
        return {key: _filled(item, row) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, row) for item in value]
    return value


class _Expander:
    def __init__(self, loaded: LoadedTask, made: Made) -> None:
        self.problems = _Problems(loaded)
        self._parts = made
        self._without_agent = loaded.task.agent is not None and loaded.task.agent.type == "none"
        self._task = loaded.task
        self._folder = loaded.path.parent
        self._criteria = _templates(loaded.task.success_criteria, ("success_criteria",))
        self._tools = _templates(self._task.sandbox.record_cli or (), ("sandbox", "record_cli"))
        declared = {entry.tool for entry in self._task.sandbox.record_cli or () if entry.options}
        simulation = self._task.simulation
        self._simulation = _Template(simulation, ("simulation",)) if simulation is not None else None
        self._context = {"rows": False, "declared": declared}
        self._tables_wait = wait_for_rows(self._task.sandbox.record_cli or ())
        script = self._task.agent if isinstance(self._task.agent, ScriptAgent) else None
        self._script = script.model_dump(exclude_unset=True) if script is not None else {}
        self._script_leaves = tuple(_leaves(self._script, ("agent",)))

    def task(self, row: Row) -> Task | None:
        """The task of a row, or None when something is wrong with it (then the problems say what)."""
        prompt = self._prompt(("initial_prompt",), self._task.initial_prompt, row)
        follow_ups = [
            self._prompt(("follow_up_prompts", index), text, row)
            for index, text in enumerate(self._task.follow_up_prompts)
        ]
        simulation = self._made(self._simulation, row) if self._simulation is not None else None
        criteria = [self._made(template, row) for template in self._criteria]
        tools = [self._made(template, row) for template in self._tools]
        script_is_whole = all(self._text(location, text, row) is not None for location, text in self._script_leaves)
        if not script_is_whole or any(part is None for part in (*criteria, *tools, *follow_ups)):
            return None
        if self._tables_wait:
            self._check_state(tools, row)
        for finding in order_findings([part for part in criteria if isinstance(part, Criterion)]):
            self.problems.add(finding, row)
        changes = {
            "agent": self._agent(row),
            "initial_prompt": prompt,
            "follow_up_prompts": tuple(follow_ups),
            "simulation": simulation,
            "sandbox": self._task.sandbox.model_copy(update={"record_cli": tuple(tools)} if tools else {}),
            "success_criteria": tuple(criteria),
            "dataset": None,
            "suite_id": self._task.task_id,
            "row_id": row.id,
        }
        return self._task.model_copy(update=changes)

    def _agent(self, row: Row) -> AgentConfig | None:
        """The task's agent; the steps of a script with the row's values in them."""
        if not self._script_leaves:
            return self._task.agent
        return ScriptAgent.model_validate({"type": "script", **_filled(self._script, row.values)})

    def _prompt(self, location: Location, text: str | None, row: Row) -> str | None:
        filled = self._text(location, text, row) if text is not None else None
        if filled is None:
            return None
        for finding in reference_leaks(filled, location):
            self.problems.add(finding, row)
        if not filled.strip():
            self.problems.add(Finding(location, "the prompt is empty"), row)
        return filled

    def _text(self, location: Location, text: str, row: Row) -> str | None:
        try:
            return substitute(text, row.values)
        except FieldError as error:
            self.problems.add(Finding(location, str(error)), row)
            return None

    def _made(self, template: _Template, row: Row) -> StrictModel | None:
        """The part of the task with the row's values in it, None when something is wrong with it."""
        if not template.leaves:
            return template.model
        texts = [self._text(location, text, row) for location, text in template.leaves]
        filled = tuple(text for text in texts if text is not None)
        if len(filled) < len(texts):
            return None
        key = (id(template.model), self._without_agent, filled)
        if key not in self._parts:
            self._parts[key] = self._make(template, row)
        return self._parts[key]

    def _make(self, template: _Template, row: Row) -> StrictModel | None:
        model = type(template.model)
        try:
            made = model.model_validate(_filled(template.data, row.values), context=self._context)
        except ValidationError as error:
            self.problems.add_refused(error, model, template.place, row)
            return None
        for finding in self._findings(made, template.place):
            self.problems.add(finding, row)
        return made

    def _findings(self, made: StrictModel, place: Location) -> Iterator[Finding]:
        if isinstance(made, Simulation):
            return reference_leaks(made, place)
        if isinstance(made, RecordedTool):
            return self._tool_findings(made, place)
        return self._criterion_findings(made, place)

    def _tool_findings(self, tool: Any, place: Location) -> Iterator[Finding]:
        yield from reference_leaks(tool, place)
        findings, problems = tool_findings(tool, self._folder, rows=False)
        yield from (Finding((*place, *finding.location), finding.message) for finding in findings)
        for problem in problems:
            self.problems.add_problem(problem)

    def _check_state(self, tools: list[StrictModel | None], row: Row) -> None:
        recorded = [tool for tool in tools if isinstance(tool, RecordedTool)]
        findings, problems = state_findings(recorded, self._folder, rows=False)
        for finding in findings:
            self.problems.add(finding, row)
        for problem in problems:
            self.problems.add_problem(problem)

    def _criterion_findings(self, criterion: Any, place: Location) -> Iterator[Finding]:
        index = int(place[-1])
        yield from criterion_findings(self._task, index, criterion)
        if isinstance(criterion, CliCalled):
            wrong, certain = recorder_finding(self._task, index, criterion)
            if wrong is not None and certain:
                yield wrong
