"""All answers of a recorded tool in one place: its own rules, then those of its tables, and the files they need."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Problem, TaskFileError
from ..text import clean
from .base import Finding, Location
from .fields import ROW_MARK
from .problems import dotted, shown_path
from .reply_files import FileError, file_use, host_file, named_files
from .reply_models import CliResponse, RecordedTool, ReplyModel
from .reply_texts import TemplateError, TemplateUse, keys_in, template_use, texts_in
from .state_keys import state_findings
from .table_files import TableFile, files_of, read_table
from .task_rules import reference_leaks
from .yaml_reader import ReadError

if TYPE_CHECKING:
    from .models import Task


@dataclasses.dataclass(frozen=True)
class LocatedRule:
    """A rule, the folder of its files, and where it stands: `responses[0]` or `tables/uip.yaml: responses[3]`."""

    response: CliResponse
    folder: Path
    origin: str


@dataclasses.dataclass(frozen=True)
class ToolTable:
    """The answers of one tool. The tool's own rules come first, then its tables in order.

    `files` are all paths on the host that answers hold or name: tables, files of replies, sources of copies, cassettes,
    files of handlers. `variables` are those of the environment that rules and templates ask for. `record_to` and
    `replay_from` are absolute.
    """

    tool: RecordedTool
    rules: tuple[LocatedRule, ...]
    folder: Path
    files: tuple[Path, ...] = ()
    variables: tuple[str, ...] = ()
    record_to: Path | None = None
    replay_from: Path | None = None


def load_table(tool: RecordedTool, task_dir: Path) -> ToolTable:
    """Gather the answers of a tool of a task in `task_dir`. Raises TaskFileError for files that cannot be used."""
    gathering = _Gathering(tool, task_dir.absolute(), rows=False)
    table = gathering.table()
    shown = shown_path(task_dir.absolute())
    wrong = [
        Problem(shown, 1, 1, clean(dotted(("record_cli", tool.tool, *place))), clean(message))
        for place, message in gathering.findings
    ]
    if wrong or gathering.problems:
        raise TaskFileError((*wrong, *gathering.problems))
    return table


def reply_findings(task: Task, task_dir: Path, rows: bool) -> tuple[list[Finding], list[Problem], list[Problem]]:
    """What is wrong with the answers of all recorded tools: places in the task, and problems and warnings of tables.

    With `rows` paths that wait for a row are left for later.
    """
    findings: list[Finding] = []
    problems: list[Problem] = []
    warnings: list[Problem] = []
    tools = task.sandbox.record_cli or ()
    for index, tool in enumerate(tools):
        gathering = _Gathering(tool, task_dir.absolute(), rows)
        gathering.table()
        place: Location = ("sandbox", "record_cli", index)
        findings += [Finding((*place, *finding.location), finding.message) for finding in gathering.findings]
        problems += gathering.problems
        warnings += gathering.warnings
    about_state, in_tables = state_findings(tools, task_dir, rows)
    warnings += in_tables
    return findings + about_state, list(dict.fromkeys(problems)), list(dict.fromkeys(warnings))


def tool_findings(tool: RecordedTool, task_dir: Path, rows: bool) -> tuple[list[Finding], list[Problem]]:
    """What is wrong with the answers of one tool: places in the tool, and problems of table files."""
    gathering = _Gathering(tool, task_dir.absolute(), rows)
    gathering.table()
    return gathering.findings, gathering.problems


class _Gathering:
    """Collects the answers of one tool and everything that is wrong with them. Used once."""

    def __init__(self, tool: RecordedTool, folder: Path, rows: bool) -> None:
        self.findings: list[Finding] = []
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self._tool = tool
        self._folder = folder
        self._rows = rows
        self._files: dict[Path, None] = {}
        self._variables: set[str] = set()

    def table(self) -> ToolTable:
        tool, folder = self._tool, self._folder
        self.findings += self._used(tool, folder)
        rules = []
        for index, response in enumerate(tool.responses):
            found = self._used(response, folder)
            self.findings += [Finding(("responses", index, *place), message) for place, message in found]
            rules.append(LocatedRule(response, folder, f"responses[{index}]"))
        for index, text in enumerate(tool.responses_from):
            rules += self._rules_from(index, text)
        record_to, replay_from = self._cassettes(rules)
        return ToolTable(
            tool,
            tuple(rules),
            folder,
            tuple(self._files),
            tuple(sorted(self._variables)),
            record_to,
            replay_from,
        )

    def _used(self, reply: ReplyModel, folder: Path) -> list[Finding]:
        """Take note of what a reply needs, and return what is wrong with its files."""
        if isinstance(reply, CliResponse):
            self._variables |= set(reply.when.env or ())
        files, found = named_files(reply, folder, self._rows)
        for place, part in reply.replies():
            for inner, text in part.texts() if part.template else ():
                if not (self._rows and ROW_MARK in text):
                    found += self._noted((*place, *inner), functools.partial(template_use, text))
        for file in files:
            self._files[file.path] = None
            found += self._noted(file.location, functools.partial(file_use, file))
        return found

    def _noted(self, place: Location, look: Callable[[], TemplateUse]) -> Iterator[Finding]:
        try:
            use = look()
        except (FileError, TemplateError) as error:
            yield Finding(place, str(error))
            return
        self._variables |= use.variables

    def _rules_from(self, index: int, text: str) -> Iterator[LocatedRule]:
        place: Location = ("responses_from",) if len(self._tool.responses_from) == 1 else ("responses_from", index)
        try:
            path = host_file(text, self._folder, self._rows)
            tables = files_of(path) if path is not None else []
        except (FileError, ReadError) as error:
            self.findings.append(Finding(place, f"{text}: {error}"))
            return
        for table_path in tables:
            if table_path in self._files:
                self.findings.append(Finding(place, f"{table_path} is listed twice"))
                continue
            self._files[table_path] = None
            table = read_table(table_path, self._tool.declared())
            self.problems += table.problems
            self.warnings += table.warnings
            if not table.problems:
                yield from self._located(table)

    def _located(self, table: TableFile) -> Iterator[LocatedRule]:
        name = shown_below(table.path, self._folder)
        for index, response in enumerate(table.responses):
            found = self._used(response, table.path.parent)
            found += reference_leaks(response)
            if self._rows:
                found += _row_findings(response)
            self.problems += [table.problem(Finding((index, *place), message)) for place, message in found]
            yield LocatedRule(response, table.path.parent, f"{name}: responses[{index}]")

    def _cassettes(self, rules: list[LocatedRule]) -> tuple[Path | None, Path | None]:
        paths: dict[str, Path | None] = {}
        for key in ("record_to", "replay_from"):
            text = getattr(self._tool, key)
            try:
                path = paths[key] = host_file(text, self._folder, self._rows) if text is not None else None
            except FileError as error:
                self.findings.append(Finding((key,), str(error)))
                paths[key] = None
                continue
            if path is not None:
                self._files[path] = None
                self._check_cassette(key, path, paths["record_to"])
        answers = [self._tool, *(rule.response for rule in rules)]
        if self._tool.record_to is not None and not any(reply.runs_program() for reply in answers):
            message = "nothing is ever recorded: expected passthrough: true for the tool or in a rule"
            self.findings.append(Finding(("record_to",), message))
        return paths["record_to"], paths["replay_from"]

    def _check_cassette(self, key: str, path: Path, record_to: Path | None) -> None:
        if path.exists() and not path.is_file():
            self.findings.append(Finding((key,), f"{path}: this is no regular file"))
        elif key == "replay_from" and path != record_to and not path.exists():
            self.findings.append(Finding((key,), f"{path}: there is no such file"))


def _row_findings(response: CliResponse) -> Iterator[Finding]:
    data = response.model_dump(exclude_unset=True)
    for place, text in (*texts_in(data, ()), *keys_in(data, ())):
        if ROW_MARK in text:
            yield Finding(place, "rows of a dataset are not put into tables; write this rule in the task itself")


def shown_below(path: Path, folder: Path) -> str:
    """The path relative to `folder` when it lies below it."""
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
