"""Rules that ask for a state which nothing in the task ever sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..errors import Problem
from .base import Finding
from .fields import ROW_MARK
from .nearest import hint
from .reply_files import FileError, host_file
from .reply_models import CliResponse, RecordedTool, ReplyModel
from .table_files import TableFile, files_of, read_table
from .yaml_reader import ReadError


def wait_for_rows(tools: Iterable[RecordedTool]) -> bool:
    """Whether only a row tells which tables there are."""
    return any(ROW_MARK in path for tool in tools for path in tool.responses_from)


def state_findings(tools: Sequence[RecordedTool], task_dir: Path, rows: bool) -> tuple[list[Finding], list[Problem]]:
    """Findings for own rules, with places in the task, and problems of table files, about states that nothing sets.

    There are none where handlers may set any state, or where tables cannot be read or, with `rows`, wait for a row.
    """
    if rows and wait_for_rows(tools):
        return [], []
    try:
        tables = [table for tool in tools for table in _tables(tool, task_dir.absolute())]
    except (FileError, ReadError):
        return [], []
    rules = itertools.chain.from_iterable((tool, *tool.responses) for tool in tools)
    in_tables = itertools.chain.from_iterable(table.responses for table in tables)
    replies: list[ReplyModel] = [part for reply in (*rules, *in_tables) for _, part in reply.replies()]
    if any(table.problems for table in tables) or any(reply.handler is not None for reply in replies):
        return [], []
    known = {key: None for reply in replies for key, value in reply.set_state.items() if value is not None}
    findings = [
        Finding(("sandbox", "record_cli", index, "responses", *place), message)
        for index, tool in enumerate(tools)
        for place, message in _never_set(tool.responses, known)
    ]
    problems = [table.problem(finding) for table in tables for finding in _never_set(table.responses, known)]
    return findings, list(dict.fromkeys(problems))


def _tables(tool: RecordedTool, folder: Path) -> Iterator[TableFile]:
    for text in tool.responses_from:
        path = host_file(text, folder, rows=False)
        for file in files_of(path) if path is not None else ():
            yield read_table(file, tool.declared())


def _never_set(responses: Sequence[CliResponse], known: Iterable[str]) -> Iterator[Finding]:
    names = tuple(known)
    for index, response in enumerate(responses):
        for key, predicate in (response.when.state or {}).items():
            if predicate.absent is None and key not in names:
                also = f" (set: {', '.join(names)})" if names else ""
                message = f"no set_state of the task sets {key!r}{hint(key, names)}{also}, so this never holds"
                yield Finding((index, "when", "state", key), message)
