"""Everything that a trial needs to record its tools: tables of answers, the one who answers, and the recorder."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TaskFileError, TrialError
from ..sandbox.digest import digest
from ..task.reply_files import named_files
from ..task.reply_tables import ToolTable, load_table
from ..task.task_rules import tools_with_stdin
from .answers.engine import Answers
from .answers.handler_files import FindByName, find_handler
from .invocation import InvocationLog
from .options import Option
from .recorder import Recorder

if TYPE_CHECKING:
    from ..sandbox.tempdir import TempdirSandbox
    from ..task.models import Task


class Equipment:
    """The recorder of one trial and what answers for it.

    `handler_by_name` finds handlers that are named without a file; `trial` is the trial's name in cassettes. Raises
    TrialError(CONFIGURATION) for files and handlers that cannot be used.
    """

    def __init__(
        self, task: Task, task_dir: Path, sandbox: TempdirSandbox, handler_by_name: FindByName, trial: str
    ) -> None:
        self._tables = _load_tables(task, task_dir)
        self._answers = Answers(
            self._tables,
            workspace_root=sandbox.workspace,
            write_file=sandbox.write_file,
            make_folder=sandbox.make_folder,
            find_handler=functools.partial(find_handler, by_name=handler_by_name),
            trial=trial,
        )
        heard = tools_with_stdin(task)
        plans = self._answers.plans()
        self.recorder = Recorder(
            [dataclasses.replace(plan, read_stdin=plan.read_stdin or plan.tool in heard) for plan in plans],
            sandbox.bin_dir,
            sandbox.root / "spool",
            answerer=self._answers,
            workspace=sandbox.workspace,
            options={
                table.tool.tool: tuple(Option(tuple(names), arity) for names, arity in table.tool.option_names())
                for table in self._tables
            },
        )
        self.digests: Mapping[str, str] = {
            f"{table.tool.tool}: {path}": digest(path).sha256
            for table in self._tables
            for path in table.files
            if path.exists() and path != table.record_to
        }
        """SHA-256 of each file and folder that answers come from."""

    @property
    def answer_keys(self) -> list[Path]:
        """The files that no template may bring into the workspace. What an effect copies is not among them."""
        copied = {path for table in self._tables for path in _copied(table)}
        return [path for table in self._tables for path in table.files if path not in copied]

    def refuse_faults(self) -> None:
        """Raise TrialError(ANSWERS_FAILED) when rules or handlers went wrong, in whatever phase."""
        if self._answers.faults:
            raise TrialError(Cause.ANSWERS_FAILED, "; ".join(self._answers.faults))

    def drain(self) -> InvocationLog:
        """Take in all calls, when the agent is dead, and keep in cassettes what the real programs answered."""
        log = self.recorder.drain()
        if not log.faults:
            self._answers.save()
        return log


def _load_tables(task: Task, task_dir: Path) -> tuple[ToolTable, ...]:
    try:
        return tuple(load_table(tool, task_dir) for tool in task.sandbox.record_cli or ())
    except TaskFileError as error:
        raise TrialError(Cause.CONFIGURATION, str(error)) from None


def _copied(table: ToolTable) -> list[Path]:
    replies = [(table.tool, table.folder), *((rule.response, rule.folder) for rule in table.rules)]
    return [
        file.path
        for reply, folder in replies
        for file in named_files(reply, folder, rows=False)[0]
        if file.key == "copy"
    ]
