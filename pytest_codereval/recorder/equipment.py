"""Everything that a trial needs to record its tools: tables of answers, the one who answers, and the recorder."""

from __future__ import annotations

import dataclasses
import os
import types
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TaskFileError, TrialError
from ..sandbox.digest import digest
from ..task.reply_files import named_files
from ..task.reply_tables import ToolTable, load_table
from ..task.task_rules import tools_with_stdin
from .answers.engine import Answers
from .answers.handler_files import FindByName, find_handler, source_of
from .invocation import InvocationLog
from .options import option_table
from .recorder import Recorder

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox
    from ..task.models import Task
    from .answers.engine import Handler


class Equipment:
    """The recorder of one trial and what answers for it.

    `handler_by_name` finds handlers that are named without a file; `trial` is the trial's name in cassettes. Raises
    TrialError(CONFIGURATION) for files and handlers that cannot be used, and for cassettes that cannot be written.
    """

    def __init__(self, task: Task, task_dir: Path, sandbox: Sandbox, handler_by_name: FindByName, trial: str) -> None:
        self._tables = _load_tables(task, task_dir)
        for cassette in self.cassettes:
            _make_room(cassette)
        self._by_name = handler_by_name
        self._modules: dict[Path, types.ModuleType] = {}
        self._sources: dict[Path, None] = {}
        self._answers = Answers(
            self._tables,
            workspace_root=sandbox.workspace,
            write_file=sandbox.write_file,
            make_folder=sandbox.make_folder,
            find_handler=self._find_handler,
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
            options={table.tool.tool: option_table(table.tool.option_names()) for table in self._tables},
            interpreter=sandbox.shim_shell,
            foreign_system=sandbox.shim_shell is not None,
            foreign_user=sandbox.foreign_user,
            host_path_of=sandbox.host_path_of,
        )
        self._sandbox = sandbox
        named = {
            f"{table.tool.tool}: {path}": digest(path).sha256
            for table in self._tables
            for path in table.files
            if path.exists() and path != table.record_to
        }
        self.digests: Mapping[str, str] = named | {f"handler: {path}": digest(path).sha256 for path in self._sources}
        """SHA-256 of each file and folder that answers come from."""

    def install(self) -> None:
        """Write the shims, and lay them over the real programs where that can be. Raises TrialError(SANDBOX)."""
        self.recorder.install()
        self.recorder.cover(self._sandbox)

    @property
    def answer_keys(self) -> list[Path]:
        """The files that no template may bring into the workspace. What an effect copies is not among them."""
        copied = {path for table in self._tables for path in _copied(table)}
        named = [path for table in self._tables for path in table.files if path not in copied]
        return [*named, *self._sources]

    @property
    def cassettes(self) -> list[Path]:
        """The files that `save` writes."""
        return [table.record_to for table in self._tables if table.record_to is not None]

    def _find_handler(self, text: str, folder: Path) -> Handler:
        handler = find_handler(text, folder, self._by_name, self._modules)
        if (source := source_of(handler)) is not None:
            self._sources[source] = None
        return handler

    def refuse_faults(self) -> None:
        """Raise TrialError(ANSWERS_FAILED) when rules or handlers went wrong, in whatever phase."""
        if self._answers.faults:
            raise TrialError(Cause.ANSWERS_FAILED, "; ".join(self._answers.faults))

    def drain(self) -> InvocationLog:
        """Take in all calls, when the agent is dead."""
        return self.recorder.drain()

    def save(self) -> None:
        """Keep in cassettes what the real programs answered. Raises TrialError(CONFIGURATION) when that fails."""
        self._answers.save()


def _load_tables(task: Task, task_dir: Path) -> tuple[ToolTable, ...]:
    try:
        return tuple(load_table(tool, task_dir) for tool in task.sandbox.record_cli or ())
    except TaskFileError as error:
        raise TrialError(Cause.CONFIGURATION, str(error)) from None


def _make_room(cassette: Path) -> None:
    """Make the folder of a cassette. Raises TrialError(CONFIGURATION) when nothing can be written there."""
    folder = Path(os.path.realpath(cassette)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrialError(Cause.CONFIGURATION, f"record_to: {cassette}: {error.strerror or error}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise TrialError(Cause.CONFIGURATION, f"record_to: {cassette}: its folder cannot be written to")


def _copied(table: ToolTable) -> list[Path]:
    replies = [(table.tool, table.folder), *((rule.response, rule.folder) for rule in table.rules)]
    return [
        file.path
        for reply, folder in replies
        for file in named_files(reply, folder, rows=False)[0]
        if file.key == "copy"
    ]
