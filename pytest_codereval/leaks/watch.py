"""One attempt's watch over grading material: what the agent is given before it starts, what it left at the end."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..recorder.invocation import InvocationLog
from ..sandbox.snapshot import Manifest
from ..trajectory.model import Event
from .image import indexes_of
from .needles import Needles, answers_of, collect, given_texts, reference_path
from .scan import Evidence, Finding, State, Taint, scan
from .view import Given, Tree, look

if TYPE_CHECKING:
    from ..sandbox.protocol import Sandbox
    from ..task.models import Task

NOT_LOOKED = Taint(
    State.INCONCLUSIVE, (Finding("trial", "it ended before its evidence was looked through", State.INCONCLUSIVE),)
)
"""Of an attempt that did not come to its seal."""


class Watch:
    """`look` comes once the agent can start, `scan` after the seal."""

    def __init__(self, task: Task, task_file: Path, sandbox: Sandbox, needles: Needles) -> None:
        self._task = task
        self._folder = task_file.parent
        self._needles = needles
        self._given = Given()
        self._sandbox = sandbox
        self._allowed = (sandbox.root, Path(sys.prefix), Path(sys.base_prefix))

    def look(self) -> None:
        """Look through what the agent is given. Raises TrialError(CONFIGURATION) naming what it must not be given."""
        root = self._sandbox.root
        trees = [
            Tree("workspace", self._sandbox.workspace, is_workspace=True),
            Tree("HOME", self._sandbox.home),
            Tree("TMPDIR", root / "tmp"),
            Tree("plugins", root / "provided"),
            *(Tree(f"mount {mount.target}", mount.source) for mount in self._sandbox.mounted),
        ]
        self._given = look(self._needles, trees, indexes_of(self._sandbox), allowed=self._allowed)

    def scan(
        self, events: Sequence[Event], log: InvocationLog, manifest: Manifest | None, snapshot: Path, tells: bool
    ) -> Taint:
        """Look through the sealed evidence. What goes wrong here changes no verdict: it is inconclusive then.

        `tells` says whether an agent worked that tells what it does.
        """
        try:
            return scan(
                self._needles,
                self._given,
                Evidence(events, log, manifest, snapshot, tells),
                given_texts=given_texts(self._task, self._folder),
                answers=answers_of(self._task),
                allowed=self._allowed,
            )
        except Exception as error:
            finding = Finding("scan", f"it failed: {type(error).__name__}: {error}", State.INCONCLUSIVE)
            return Taint(State.INCONCLUSIVE, (finding,))


def watch(
    task: Task,
    task_file: Path,
    sandbox: Sandbox,
    *,
    checkout: Path,
    run_directory: Path,
    dataset_files: Iterable[Path] = (),
    answer_files: Iterable[Path] = (),
    planted: Mapping[str, str] | None = None,
) -> Watch:
    """A watch over the grading material of a task. `planted` are tokens of the harness and what they stand in.

    Raises TrialError(CONFIGURATION) for a path of the task with an undefined variable.
    """
    places = {"task's folder": task_file.parent, "run directory": run_directory, "checkout": checkout}
    if (reference := reference_path(task, task_file.parent.absolute())) is not None:
        places = {"reference": reference, **places}
    needles = collect(
        task,
        task_file,
        dataset_files=dataset_files,
        answer_files=answer_files,
        planted_tokens=planted,
        places=places,
        keep_out=(run_directory, sandbox.root),
    )
    return Watch(task, task_file, sandbox, needles)
