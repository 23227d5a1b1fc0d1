"""An engine of answers over a real workspace, asked as the spool asks it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pytest_codereval.errors import Cause, TrialError
from pytest_codereval.recorder.answering import Answer, CapturedRun, Printed, ReadStdin, Request
from pytest_codereval.recorder.answers.call import Call
from pytest_codereval.recorder.answers.engine import Answers
from pytest_codereval.sandbox.writing import make_folder_beneath, write_beneath
from pytest_codereval.task.reply_models import RecordedTool
from pytest_codereval.task.reply_tables import load_table

Handlers = Mapping[str, Callable[[Call], object]]


def find(handlers: Handlers, text: str, folder: Path) -> Callable[[Call], object]:
    """The handler of this name, whatever the folder."""
    if text not in handlers:
        raise TrialError(Cause.CONFIGURATION, f"there is no handler {text!r}")
    return handlers[text]


class Engine:
    """`root/task` is the task's folder, `root/workspace` the workspace. Tools are given as in YAML."""

    def __init__(
        self, root: Path, *tools: Mapping[str, Any], handlers: Handlers | None = None, trial: str = "t"
    ) -> None:
        self.folder = root / "task"
        self.workspace = root / "workspace"
        for folder in (self.folder, self.workspace):
            folder.mkdir(parents=True, exist_ok=True)
        self.answers = Answers(
            [load_table(RecordedTool.model_validate({"tool": "uip", **tool}), self.folder) for tool in tools],
            workspace_root=self.workspace,
            write_file=lambda path, content, executable: write_beneath(self.workspace, path, content, executable),
            make_folder=lambda path: make_folder_beneath(self.workspace, path),
            find_handler=functools.partial(find, handlers or {}),
            trial=trial,
        )

    def ask(
        self,
        *argv: str,
        tool: str = "uip",
        cwd: str = ".",
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        run: CapturedRun | None = None,
    ) -> Answer:
        """One request; `cwd` is relative to the workspace."""
        return self.answers.answer(Request(tool, argv, str(self.workspace / cwd), env or {}, stdin, run))

    def call(self, *argv: str, stdin: bytes = b"", **how: Any) -> Printed:
        """A whole call: standard input is read when the engine asks for it."""
        answer = self.ask(*argv, **how)
        if isinstance(answer, ReadStdin):
            answer = self.ask(*argv, stdin=stdin, **how)
        assert isinstance(answer, Printed)
        return answer

    def out(self, *argv: str, **how: Any) -> str:
        """What a call prints."""
        return self.call(*argv, **how).stdout.decode()

    def files(self) -> dict[str, str]:
        """All files of the workspace with their content."""
        found = sorted(path for path in self.workspace.rglob("*") if path.is_file() and not path.is_symlink())
        return {str(path.relative_to(self.workspace)): path.read_text(encoding="utf-8") for path in found}
