"""The `tempdir` driver: a temporary directory of the trial's own, its processes owned by a supervisor."""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from . import registry, supervision
from .environment import Environment, EnvironmentPlan, Places, SearchPath
from .process import SurvivorsError, run
from .protocol import DEFAULT_OUTPUT_LIMIT, Phase, ProcessResult
from .removal import remove_tree
from .supervision import Keeper, KeeperLost
from .withholding import Withheld
from .workspace import Workspace
from .writing import write_beneath

if TYPE_CHECKING:
    from ..task.models import SandboxConfig

_LOGIN_FILES = (".profile", ".bash_profile", ".zprofile")


def create(config: SandboxConfig, *, environments: EnvironmentPlan, root_parent: Path | None = None) -> TempdirSandbox:
    """An empty sandbox below `root_parent`, by default below the system's directory for temporary files.

    The variables of `config` are added to the plan. Raises TrialError(CONFIGURATION) for another driver and for
    variables that tell the agent what it must not know, TrialError(SANDBOX) when there is no room for it.
    """
    if config.driver != TempdirSandbox.driver:
        raise TrialError(Cause.CONFIGURATION, f"sandbox.driver: {config.driver!r} is not available yet, only 'tempdir'")
    plan = EnvironmentPlan(
        passthrough=(*environments.passthrough, *config.env_passthrough),
        extra={**environments.extra, **config.env},
        withhold=environments.withhold,
    )
    place = registry.registry(root_parent, avoid=Withheld(environments.withhold))
    return TempdirSandbox(place.new_root(), plan, _search_path(place.home), config.ignore_patterns)


class TempdirSandbox:
    """One trial's place to work. `root` holds it all; only `workspace` is graded.

    `bin_dir` is for shims, first on the agent's PATH; `agent_path_dirs` are the mock directories behind it.
    `withheld_names` are the passed-through variables that the agent does not get. `files` is the workspace as
    evidence. `leftovers` says after `close` what could not be removed.
    """

    driver = "tempdir"

    def __init__(
        self, root: Path, plan: EnvironmentPlan, search_path: SearchPath, ignore_patterns: Sequence[str] = ()
    ) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.tmp = root / "tmp"
        self.bin_dir = root / "bin"
        self.leftovers: tuple[str, ...] = ()
        self._keeper: Keeper | None = None
        self._closed = False
        self._owner = os.getpid()
        try:
            self._environment = Environment(plan, Places(self.home, self.tmp, self.bin_dir), search_path)
            self._make()
        except BaseException:
            remove_tree(root)
            raise
        self.files = Workspace(self.workspace, ignore_patterns)

    def _make(self) -> None:
        for folder in (self.workspace, self.home, self.tmp, self.bin_dir):
            folder.mkdir(0o700)
        line = f". {self.root}/login.sh\n"
        for name in _LOGIN_FILES:
            _write(self.home / name, line)
        self._write_login_script()

    def _write_login_script(self) -> None:
        _write(self.root / "login.sh", self._environment.login_script())

    @property
    def agent_path_dirs(self) -> list[Path]:
        return self._environment.agent_path_dirs

    @agent_path_dirs.setter
    def agent_path_dirs(self, folders: Sequence[Path]) -> None:
        self._environment.agent_path_dirs = list(folders)
        self._write_login_script()

    @property
    def venv(self) -> Path | None:
        """The virtual environment that is first on the PATH of all phases, if the task asks for one."""
        return self._environment.venv

    @venv.setter
    def venv(self, folder: Path | None) -> None:
        self._environment.venv = folder
        self._write_login_script()

    @property
    def withheld_names(self) -> tuple[str, ...]:
        return self._environment.withheld_names

    def environment(self, phase: Phase) -> dict[str, str]:
        """The complete environment of a process in `phase`."""
        return self._environment.of(phase)

    def env_with_shims(self) -> dict[str, str]:
        """What to pass as `env` to a run in GRADE that is to meet the agent's shims and mock directories."""
        return self._environment.with_shims()

    def run(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
    ) -> ProcessResult:
        """See `protocol.Sandbox.run`. What an AGENT run leaves in the background lives on until `reap`."""
        if self._closed:
            raise TrialError(Cause.UNEXPECTED, "the sandbox is closed")
        if phase is Phase.GRADE and not self._workspace_is_there():
            return ProcessResult(126, stderr=b"the workspace was removed or replaced by a link\n")
        try:
            return run(
                self._open_keeper(),
                argv,
                cwd=str(self.workspace),
                env={**self._environment.of(phase), **(env or {})},
                timeout=timeout,
                output_limit=output_limit,
                scoped=phase is not Phase.PREPARE,
                reap=phase is not Phase.AGENT,
            )
        except KeeperLost:
            raise self._loss() from None
        except SurvivorsError as error:
            raise _survivors(str(error)) from None

    def write_file(self, path: str, content: bytes) -> None:
        """See `protocol.Sandbox.write_file`."""
        write_beneath(self.workspace, path, content)

    def _workspace_is_there(self) -> bool:
        return self.workspace.is_dir() and os.path.realpath(self.workspace) == str(self.workspace)

    def _open_keeper(self) -> Keeper:
        if self._keeper is not None and not self._keeper.usable:
            self.reap()
        if self._keeper is None:
            self._keeper = supervision.supervisor().open_keeper()
        return self._keeper

    def reap(self) -> None:
        """Kill every process that was started here, however it daemonised, and prove that none lives.

        Raises TrialError(TAMPERED) when keeper or supervisor were killed, TrialError(SANDBOX) when processes outlive
        SIGKILL. The sandbox can be used again afterwards.
        """
        self._end_processes(last=False)

    def _end_processes(self, *, last: bool) -> None:
        keeper = self._keeper
        if keeper is None:
            return
        try:
            end = keeper.release if last else keeper.reap
            survivors = end() if keeper.usable else self._settle(keeper)
        except KeeperLost:
            raise self._loss() from None
        if last:
            self._keeper = None
        if survivors:
            raise _survivors(", ".join(map(str, survivors)))

    def _settle(self, keeper: Keeper) -> list[int]:
        """The end of a keeper that was given up, because a wait for it was interrupted."""
        self._keeper = None
        try:
            status, survivors = keeper.settle()
        except TrialError:
            registry.kill_below(self.root)
            raise
        if status < 0:
            registry.kill_below(self.root)
            raise TrialError(Cause.TAMPERED, f"the keeper of the agent's processes was killed by signal {-status}")
        return survivors

    def _loss(self) -> TrialError:
        """Clean up after a keeper that is gone without being asked, and say why it is."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return TrialError(Cause.TAMPERED, "the keeper of the agent's processes is gone")
        try:
            survivors = self._settle(keeper)
        except TrialError as error:
            return error
        if survivors:
            return _survivors(", ".join(map(str, survivors)))
        return TrialError(Cause.SANDBOX, "the keeper of the agent's processes ended by itself")

    def close(self) -> None:
        """Reap, then remove everything on disk. May be called twice. Does nothing in a forked copy of the process."""
        if self._closed or self._owner != os.getpid():
            return
        try:
            self._end_processes(last=True)
        finally:
            self._closed = True
            self.leftovers = remove_tree(self.root)


def shut_down() -> None:
    """Kill all processes of all sandboxes of this process, then remove what they left on disk."""
    supervision.shut_down()
    registry.release_all()


atexit.register(shut_down)

_search_paths: dict[tuple[str, Path], SearchPath] = {}


def _search_path(home: Path) -> SearchPath:
    """The search path of this process; made anew when the harness's PATH changes."""
    key = (os.environ.get("PATH", ""), home)
    if key not in _search_paths:
        tools = home / f"s{len(_search_paths) + 1}"
        tools.mkdir(0o700)
        _search_paths[key] = SearchPath(tools)
    return _search_paths[key]


def _survivors(pids: str) -> TrialError:
    return TrialError(Cause.SANDBOX, f"processes of the sandbox cannot be killed: {pids}")


def _write(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, os.fsencode(text))
    finally:
        os.close(descriptor)
