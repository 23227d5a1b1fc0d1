"""The sandbox in which a stored trial is judged."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..recorder.answers.handler_files import FindByName
from ..recorder.equipment import Equipment
from ..recorder.shims.names import generated_names
from ..running.judge_desk import make_desk
from ..sandbox import drivers
from ..sandbox.environment import EnvironmentPlan
from ..sandbox.host_path import host_path
from ..sandbox.material import GradingMaterial
from ..sandbox.packages import install_python_packages
from ..sandbox.protocol import Phase, Sandbox
from ..sandbox.staging import prepare_mock_dirs
from ..sandbox.workspace import Workspace
from ..store.reader import StoredRecord
from .workspace import files_naming, restore

if TYPE_CHECKING:
    from ..criteria.judges.desk import JudgeDesk
    from ..running.judge_accounts import JudgeAccounts
    from ..task.trials import TrialSpec
    from .stored import Settings


MOST_NAMED = 3


class Place:
    """Used once: `stage`, `begin_grading`, and `close` on every path. Each raises TrialError."""

    material: GradingMaterial
    sandbox: Sandbox

    def __init__(self, spec: TrialSpec, settings: Settings, stored: StoredRecord, by_name: FindByName) -> None:
        self._spec = spec
        self._task = spec.task
        self._settings = settings
        self._stored = stored
        self._by_name = by_name
        self._equipment: Equipment | None = None
        self._naming: list[str] = []
        self.is_made = False
        self.leftovers: tuple[str, ...] = ()

    def stage(self) -> None:
        """Make the sandbox and put the stored workspace into it, as the agent left it."""
        spec, folder = self._spec, self._spec.path.parent
        self.sandbox = sandbox = self._settings.choice.create(self._order())
        self.is_made = True
        manifest = self._stored.manifest
        assert manifest is not None
        if self._needs_shims:
            self._equipment = Equipment(self._task, folder, sandbox, self._by_name, spec.trial_id)
        self.material = GradingMaterial(
            self._task,
            spec.path,
            sandbox.root,
            spec.dataset_paths,
            keep_out=[self._settings.run_directory.path, self._settings.run, *self._cassettes],
            variables=sandbox.environment(Phase.PREPARE),
            show=sandbox.show,
        )
        restore(self._stored.folder / "workspace", manifest, sandbox.workspace, self._stored.workspace_root)
        self._naming = files_naming(manifest, sandbox.workspace, self._stored.workspace_root)
        python = self._task.sandbox.python
        if python is not None and python.env_packages:
            install_python_packages(sandbox, python.env_packages, folder)
        if self._equipment is not None:
            self._equipment.install()
            prepare_mock_dirs(sandbox, self._task.sandbox, generated_names=self._generated_names)
        self.material.hide()
        sandbox.end_preparation()

    def _order(self) -> drivers.Order:
        spec, settings, folder = self._spec, self._settings, self._spec.path.parent
        return drivers.Order(
            config=self._task.sandbox,
            environments=EnvironmentPlan(settings.env_passthrough, withhold=(folder, settings.rootdir)),
            task_dir=folder,
            hidden=(settings.run_directory.path, settings.run),
            image=settings.choice.image,
            answer_keys=tuple(host_path(path, folder, "dataset.paths") for path in spec.dataset_paths),
            readable=settings.choice.readable,
            session=settings.run_directory.path.name,
            trial=spec.trial_id,
            seeded=False,
        )

    @property
    def _needs_shims(self) -> bool:
        asked = any(getattr(criterion, "shims", False) for criterion in self._task.success_criteria)
        return asked and bool(self._task.sandbox.record_cli)

    @property
    def _cassettes(self) -> list[Path]:
        return self._equipment.cassettes if self._equipment is not None else []

    @property
    def _generated_names(self) -> list[str]:
        return [name for tool in self._task.sandbox.record_cli or () for name in generated_names(tool.tool)]

    def begin_grading(self) -> tuple[dict[str, str], Workspace | None]:
        """The environment of graders and the reference, revealed."""
        if self._equipment is not None:
            self._equipment.drain()
        self.sandbox.begin_grading()
        environment = self.material.reveal()
        return environment, self.material.reference_workspace()

    def desk(self, accounts: JudgeAccounts, folder: Path | None) -> JudgeDesk:
        """The desk of the trial's judges; `folder` takes their transcripts."""
        never = (self._spec.path.parent, self._settings.rootdir, self._settings.run_directory.path, self._settings.run)
        return make_desk(
            self._task,
            self._spec.path.parent,
            accounts,
            folder=folder,
            shared=self._settings.run_directory.shared,
            make_sandbox=lambda: self._settings.choice.create(self._order()),
            never=never,
        )

    def refuse_faults(self) -> None:
        """Raise TrialError when rules or handlers went wrong."""
        if self._equipment is not None:
            self._equipment.refuse_faults()

    @property
    def without(self) -> list[str]:
        """What graders had when the trial ran and have not now; known once the workspace is staged."""
        found = []
        if self._task.pre_run:
            found.append("what pre_run left outside the workspace (HOME, TMPDIR, the virtual environment)")
        python = self._task.sandbox.python
        if python is not None and python.env_packages:
            found.append("what the agent installed into the virtual environment")
        if any(getattr(criterion, "command", None) for criterion in self._task.success_criteria):
            found += [f"the path of the workspace that {name} names" for name in self._naming[:MOST_NAMED]]
        return found

    def close(self) -> None:
        """Remove the sandbox. May be called twice."""
        if self.is_made:
            try:
                self.sandbox.close()
            finally:
                self.leftovers = tuple(self.sandbox.leftovers)
                if self._equipment is not None:
                    self._equipment.recorder.close()
