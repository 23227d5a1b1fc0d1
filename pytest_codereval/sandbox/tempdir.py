"""The `tempdir` driver: a temporary directory of the trial's own, its processes owned by a supervisor."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import errno
import os
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Cause, TrialError
from . import process, registry, supervision
from .environment import Environment, EnvironmentPlan, Places, SearchPath
from .keeper import MOST_NAMED, UNKNOWN
from .preparation import Preparation, write_login_files, write_new
from .process import SurvivorsError
from .protocol import DEFAULT_OUTPUT_LIMIT, Phase, ProcessResult
from .removal import remove_tree
from .standing import changes, restore, standing
from .supervision import Command, Keeper, KeeperLost
from .withholding import Withheld
from .workspace import Workspace
from .writing import make_folder_beneath, write_beneath

if TYPE_CHECKING:
    from ..task.models import SandboxConfig

_ATTACKED = (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.EACCES, errno.EPERM)
"""What making files in a directory of ours fails with when somebody removed, replaced or barred it."""


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
    return TempdirSandbox(place, plan, _search_path(), config.ignore_patterns)


class TempdirSandbox:
    """One trial's place to work. `root` holds it all; only `workspace` is graded.

    `bin_dir` is for shims, first on the agent's PATH; `agent_path_dirs` are the mock directories behind it.
    `withheld_names` are the passed-through variables that the agent does not get. `files` is the workspace as
    evidence. `leftovers` says after `close` what could not be removed.
    """

    driver = "tempdir"

    def __init__(
        self,
        place: registry.Registry,
        plan: EnvironmentPlan,
        search_path: SearchPath,
        ignore_patterns: Sequence[str] = (),
    ) -> None:
        self._place = place
        self.root = root = place.new_root()
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.tmp = root / "tmp"
        self.bin_dir = root / "bin"
        self.leftovers: tuple[str, ...] = ()
        self._preparation: Preparation | None = None
        self._grading_fault: TrialError | None = None
        self._standing: dict[str, Any] | None = None
        self._keeper: Keeper | None = None
        self._closed = False
        self._owner = os.getpid()
        try:
            self._places = Places(self.home, self.tmp, root / "tools", root / "cache")
            self._environment = Environment(plan, self._places, self.bin_dir, search_path)
            self._make()
        except BaseException:
            remove_tree(root)
            raise
        self.files = Workspace(self.workspace, ignore_patterns)

    def _make(self) -> None:
        for folder in (self.workspace, self.home, self.tmp, self.bin_dir):
            folder.mkdir(0o700)
        write_login_files(self.home, self._login_line)
        self._write_login_script()

    @property
    def _login_line(self) -> str:
        return f". {self.root}/login.sh\n"

    def _write_login_script(self) -> None:
        write_new(self.root / "login.sh", self._environment.login_script())

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

    def end_preparation(self) -> None:
        """Keep what `pre_run` left in HOME and TMPDIR for grading. Comes before the agent; may be called twice.

        Raises TrialError(SANDBOX) when it cannot be kept.
        """
        if self._preparation is not None:
            return
        try:
            self._preparation = Preparation(self.root, self._places, self._login_line, self.venv)
            self._environment.preparing = False
            self._write_login_script()
        except OSError as error:
            raise TrialError(
                Cause.SANDBOX, f"what pre_run left in HOME and TMPDIR cannot be kept for grading: {error}"
            ) from error

    def begin_grading(self) -> None:
        """Give GRADE its own HOME, TMPDIR and start-up files, as they were when preparation ended.

        Comes after the seal and before the first run in GRADE; nothing of the agent runs afterwards. Raises
        TrialError(TAMPERED), each time it is called, when the agent changed what graders would run; they can be run
        nevertheless, for `post_run`, without what was changed.
        """
        if self._environment.grading is None and self._grading_fault is None:
            self.end_preparation()
            assert self._preparation is not None
            self._grading_fault = self._begin_grading(self._preparation)
        if self._grading_fault is not None:
            raise self._grading_fault

    def _begin_grading(self, preparation: Preparation) -> TrialError | None:
        try:
            problems = preparation.restore()
            venv_problems = preparation.venv_problems(self._environment.base_path)
            if venv_problems:
                self._environment.venv = None
            self._environment.grading = preparation.grading
            write_new(preparation.folder / "login.sh", self._environment.login_script())
        except OSError as error:
            self._environment.grading = None
            cause = Cause.TAMPERED if error.errno in _ATTACKED else Cause.SANDBOX
            return TrialError(cause, f"no place for grading can be made: {error}")
        problems += venv_problems
        if not problems:
            return None
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        return TrialError(Cause.TAMPERED, f"the agent changed what graders would use: {'; '.join(problems[:3])}{more}")

    def run(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
        stdin: bytes = b"",
    ) -> ProcessResult:
        """See `protocol.Sandbox.run`. What an AGENT run leaves in the background lives on until `reap`."""
        command = self._command(argv, phase, timeout, env or {}, output_limit, stdin)
        if phase is Phase.GRADE and not self._workspace_is_there():
            return ProcessResult(126, stderr=b"the workspace was removed or replaced by a link\n")
        with self._watched():
            return process.run(self._open_keeper(), command)

    def stream(
        self,
        argv: Sequence[str],
        *,
        phase: Phase,
        timeout: float,
        env: Mapping[str, str] | None = None,
        output_limit: int = DEFAULT_OUTPUT_LIMIT,
        stdin: bytes = b"",
        wake: int | None = None,
        private_output: bool = False,
    ) -> Generator[bytes, None, ProcessResult]:
        """See `protocol.Sandbox.stream`; for PREPARE and AGENT."""
        plain = self._command(argv, phase, timeout, env or {}, output_limit, stdin)
        command = dataclasses.replace(plain, private_output=private_output)
        with self._watched():
            return (yield from process.stream(self._open_keeper(), command, wake))

    def _command(
        self,
        argv: Sequence[str],
        phase: Phase,
        timeout: float,
        env: Mapping[str, str],
        output_limit: int,
        stdin: bytes,
    ) -> Command:
        if self._closed:
            raise TrialError(Cause.UNEXPECTED, "the sandbox is closed")
        self._check_order(phase)
        return Command(
            argv,
            cwd=str(self.workspace),
            env={**self._environment.of(phase), **env},
            timeout=timeout,
            output_limit=output_limit,
            scoped=phase is not Phase.PREPARE,
            reap=phase is not Phase.AGENT,
            stdin=stdin,
        )

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Say what it means for the trial when the keeper is gone or processes outlive it."""
        try:
            yield
        except KeeperLost:
            raise self._loss() from None
        except SurvivorsError as error:
            raise _survivors(error.pids) from None

    def _check_order(self, phase: Phase) -> None:
        if phase is not Phase.GRADE and self._environment.grading is not None:
            raise TrialError(Cause.UNEXPECTED, f"a run in {phase} after grading has begun")
        if phase is Phase.AGENT:
            self.end_preparation()
            self._standing = self._standing or standing()

    def write_file(self, path: str, content: bytes, executable: bool = False) -> None:
        """See `protocol.Sandbox.write_file`."""
        write_beneath(self.workspace, path, content, executable)

    def provide(self, source: Path, name: str) -> Path:
        """See `protocol.Sandbox.provide`."""
        target = self.root / "provided" / name
        target.parent.mkdir(0o700, parents=True, exist_ok=True)
        shutil.copytree(source, target, symlinks=True, ignore=_links)
        return target

    def write_home(self, path: str, content: bytes) -> None:
        """See `protocol.Sandbox.write_home`."""
        write_beneath(self.home, path, content, False)

    def make_folder(self, path: str) -> None:
        """Make a folder of the workspace, and those above it; never through a link that leaves it. Raises OSError."""
        make_folder_beneath(self.workspace, path)

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
        altered = self._restore_standing()
        try:
            self._end_processes(last=False)
        finally:
            altered += self._take_back_directories()
        if self._keeper is not None and self._keeper.altered:
            altered += self._keeper.altered
            self._keeper.close()
            self._keeper = None
        if altered:
            raise TrialError(Cause.TAMPERED, f"the agent changed what is not its own: {', '.join(altered)}")

    def _take_back_directories(self) -> list[str]:
        return [*self._place.repair(), *registry.take_back(self.root)]

    def _restore_standing(self) -> list[str]:
        """Undo what the agent did to the limits of this process; what it was."""
        if self._standing is None:
            return []
        altered = changes(self._standing, standing())
        if not altered:
            return []
        restore(self._standing)
        lasting = changes(self._standing, standing())
        self._standing = None
        return [f"{name} of pytest{' (for good)' if name in lasting else ''}" for name in altered]

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
            raise _survivors(survivors)

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
            return _survivors(survivors)
        return TrialError(Cause.SANDBOX, "the keeper of the agent's processes ended by itself")

    def close(self) -> None:
        """Reap, then remove everything on disk. May be called twice. Does nothing in a forked copy of the process."""
        if self._closed or self._owner != os.getpid():
            return
        try:
            self._restore_standing()
            self._end_processes(last=True)
        finally:
            self._closed = True
            self._take_back_directories()
            self.leftovers = remove_tree(self.root)


def shut_down() -> None:
    """Kill all processes of all sandboxes of this process, then remove what they left on disk."""
    supervision.shut_down()
    registry.release_all()


atexit.register(shut_down)

_search_paths: dict[str, SearchPath] = {}


def _search_path() -> SearchPath:
    """The search path of this process; made anew when the harness's PATH changes."""
    key = os.environ.get("PATH", "")
    if key not in _search_paths:
        _search_paths[key] = SearchPath()
    return _search_paths[key]


def _links(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_symlink()]


def _survivors(pids: Sequence[int]) -> TrialError:
    named = ", ".join("of unknown id" if pid == UNKNOWN else str(pid) for pid in pids[:MOST_NAMED])
    return TrialError(Cause.SANDBOX, f"processes of the sandbox cannot be killed: {named}")
