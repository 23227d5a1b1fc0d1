"""A vector's recorded tool, called through a real shim."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pytest_codereval.recorder.answers.engine import Answers
from pytest_codereval.recorder.answers.handler_files import find_handler, no_names
from pytest_codereval.recorder.recorder import Recorder
from pytest_codereval.task.reply_tables import load_table

from .models import model_named
from .outcome import Outcome, Vector


def record_cli_shim(vector: Vector) -> Outcome:
    """Call the tool once and return what the caller saw and what was recorded."""
    tool = model_named("RecordedCli").model_validate(vector["entry"])
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        workspace = root / "workspace"
        workspace.mkdir()

        def write_file(path: str, content: bytes, executable: bool) -> None:
            (workspace / path).write_bytes(content)

        answers = Answers(
            [load_table(tool, root)],
            workspace_root=workspace,
            write_file=write_file,
            make_folder=lambda path: (workspace / path).mkdir(),
            find_handler=lambda text, folder: find_handler(text, folder, no_names),
            trial="vector",
        )
        recorder = Recorder(answers.plans(), root / "bin", root / "spool", answerer=answers, workspace=workspace)
        try:
            recorder.install()
            done = subprocess.run(
                [root / "bin" / tool.tool, *vector["argv"]],
                cwd=workspace,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
            )
            (invocation,) = recorder.drain().invocations
        finally:
            recorder.close()
    record: dict[str, Any] = {
        "argv": list(invocation.argv),
        "exit": invocation.exit_status,
        "tool": invocation.tool,
    }
    kind, _, number = invocation.answered_by.partition(" ")
    if kind == "rule":
        record["rule"] = int(number)
    return Outcome(
        "answered",
        {
            "exit": done.returncode,
            "stdout": done.stdout.decode(),
            "stderr": done.stderr.decode(),
            "record": record,
        },
    )
