"""A sandbox whose files lie in a directory of the harness's disk; how its processes run is the driver's affair."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import Cause, TrialError
from .disk_watch import DiskWatch
from .enclosure import Enclosure, Mount, Network, Owner, View
from .environment import Environment, EnvironmentPlan, Places, SearchPath
from .gate import ConnectionLog, Gate
from .grading_copy import GRADING_LIMITS, Surroundings, make_grading_copy
from .ownership import hand_over
from .preparation import Preparation, write_login_files, write_new
from .protocol import DEFAULT_OUTPUT_LIMIT, Phase, ProcessResult
from .registry import Registry
from .removal import remove_tree
from .serving import Served, Services, Take
from .sight import Sight
from .snapshot import Manifest
from .supervision import Command
from .workspace import Workspace
from .writing import make_folder_beneath, write_beneath

if TYPE_CHECKING:
    from .drivers import Order

_ATTACKED = (errno.ENOENT, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.EACCES, errno.EPERM)
"""What making files in a directory of ours fails with when somebody removed, replaced or barred it."""


class System(Surroundings, Protocol):
    """Where the processes of one sandbox run: what a driver brings. `owner` is None when it is the harness's user."""

    driver: str
    owner: Owner | None
    shim_shell: str | None
    search_path: SearchPath
    variables: Mapping[str, str]
    """What every process gets in its environment beside what the sandbox sets."""
    python: str
    described: Mapping[str, object]
    can_mount: bool
    """Whether its views can show files at other places than their own, such as shims over programs."""
    network: Network
    """What the agent may reach."""
    own_network: bool
    """Whether the agent's environment has a loopback device of its own."""

    def enclose(self, phase: Phase, view: View) -> Enclosure:
        """The environment of a phase. Raises TrialError(SANDBOX)."""

    def run_tool(self, argv: Sequence[str], cwd: Path, timeout: float) -> ProcessResult:
        """See `protocol.Sandbox.run_tool`."""

    def seed(self, workspace: Path) -> Sequence[str]:
        """Put into the fresh workspace what the system holds in its place; what was left out of it."""

    def close(self) -> None:
        """Let go of what was made for the sandbox as a whole. May be called twice."""


class DirectorySandbox:
    """One trial's place to work. `root` holds it all; only `workspace` is graded.

    What lies below `root` has the same path inside and outside.
    """

    def __init__(self, place: Registry, order: Order, system: System, root: Path) -> None:
        self.system = system
        self.driver = system.driver
        self.root = root
        self.workspace = root / "workspace"
        self.home = root / "home"
        self.tmp = root / "tmp"
        self.bin_dir = root / "bin"
        self.spool_dir = root / "spool"
        self.leftovers: tuple[str, ...] = ()
        self.described = system.described
        self.shim_shell = system.shim_shell
        self.foreign_user = system.owner is not None
        self._order = order
        self._place = place
        self._preparation: Preparation | None = None
        self._grading_fault: TrialError | None = None
        self.graded: Manifest | None = None
        self.left_out_of_image: tuple[str, ...] = ()
        self._enclosures: dict[Phase, Enclosure] = {}
        self._sight = Sight(root, order, system.owner, system.network)
        self._services = Services(system.own_network)
        self._gate = Gate(system.network.allowed) if system.network.kind == "allow" else None
        self._watch: DiskWatch | None = None
        self._closed = False
        self._owner = os.getpid()
        try:
            self._places = Places(self.home, self.tmp, root / "tools", root / "cache")
            plan = _full_plan(order, system.variables)
            self._environment = Environment(plan, self._places, self.bin_dir, system.search_path)
            self._make()
        except BaseException:
            system.close()
            remove_tree(root)
            raise
        self.files = Workspace(self.workspace, order.config.ignore_patterns)

    def _make(self) -> None:
        for folder in (self.workspace, self.home, self.tmp, self.bin_dir, self._sight.provided):
            folder.mkdir(0o755 if self.foreign_user else 0o700)
        write_login_files(self.home, self._login_line)
        self._write_login_script()
        self.left_out_of_image = tuple(self.system.seed(self.workspace))
        self.mounted: Sequence[Mount] = self._sight.mount_extra() if self.system.can_mount else ()

    @property
    def _login_line(self) -> str:
        return f". {self.root}/login.sh\n"

    def _write_login_script(self) -> None:
        self._write_readable(self.root / "login.sh", self._environment.login_script())

    def _write_readable(self, path: Path, text: str) -> None:
        write_new(path, text)
        if self.foreign_user:
            path.chmod(0o644)

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
    def launcher_dir(self) -> Path:
        """See `protocol.Sandbox.launcher_dir`."""
        self._environment.places_of(Phase.GRADE)
        assert self._preparation is not None
        return self._preparation.launcher

    @property
    def withheld_names(self) -> tuple[str, ...]:
        return self._environment.withheld_names

    @property
    def python(self) -> str:
        return self.system.python

    def host_path_of(self, path: str) -> str:
        """See `protocol.Sandbox.host_path_of`."""
        return self.system.host_path_of(path)

    def holds(self, path: str) -> bool:
        """See `protocol.Sandbox.holds`."""
        return self.system.holds(path)

    def make_ready(self, phase: Phase) -> None:
        """See `protocol.Sandbox.make_ready`."""
        if self._workspace_is_there():
            self._enclosure(phase).make_ready()

    def environment(self, phase: Phase) -> dict[str, str]:
        """The complete environment of a process in `phase`."""
        return self._environment.of(phase)

    def env_with_shims(self) -> dict[str, str]:
        """See `protocol.Sandbox.env_with_shims`."""
        return self._environment.with_shims()

    # -- what is seen

    def expose(self, path: Path) -> None:
        """See `protocol.Sandbox.expose`."""
        if Phase.AGENT in self._enclosures:
            raise TrialError(Cause.UNEXPECTED, f"{path} is exposed after the agent has started")
        self._sight.exposed.append(path)

    def cover(self, tool: str, shim: Path) -> bool:
        """See `protocol.Sandbox.cover`."""
        if self.system.can_mount:
            self._sight.shims[tool] = shim
        return self.system.can_mount

    def show(self, path: Path) -> None:
        """See `protocol.Sandbox.show`."""
        if path not in self._sight.shown:
            self._sight.shown.append(path)
            for phase in (Phase.PREPARE, Phase.GRADE):
                self._end(phase)

    def _view(self, phase: Phase) -> View:
        places = self._environment.places_of(phase)
        return self._sight.view(phase, places, self.venv, self._services.ports)

    # -- preparation and grading

    def end_preparation(self) -> None:
        """See `protocol.Sandbox.end_preparation`."""
        if self._preparation is not None:
            return
        self._end(Phase.PREPARE)
        self._sight.shown.clear()
        try:
            self._preparation = Preparation(self.root, self._places, self._login_line, self.venv)
            self._sight.keep_mounts()
            self._environment.preparing = False
            self._write_login_script()
        except OSError as error:
            raise TrialError(
                Cause.SANDBOX, f"what pre_run left in HOME, TMPDIR and mounts cannot be kept for grading: {error}"
            ) from error

    def begin_grading(self) -> None:
        """See `protocol.Sandbox.begin_grading`."""
        if self._environment.grading is None and self._grading_fault is None:
            self.end_preparation()
            self._end(Phase.AGENT)
            self._services.close()
            assert self._preparation is not None
            self._grading_fault = TrialError(Cause.INTERRUPTED, "grading was interrupted before it began")
            self._grading_fault = self._begin_grading(self._preparation)
        if self._grading_fault is not None:
            raise self._grading_fault

    def _begin_grading(self, preparation: Preparation) -> TrialError | None:
        try:
            problems = preparation.restore()
            venv_problems = preparation.venv_problems(self._environment.base_path)
            if venv_problems:
                self._environment.venv = None
            self._environment.grade(preparation.grading, preparation.running, preparation.launcher / "bin")
            self._sight.launcher = preparation.launcher
            for places, running in ((preparation.grading, False), (preparation.running, True)):
                self._write_readable(places.login_script, self._environment.login_script(running=running))
            if self._workspace_is_there():
                never = (*self._order.environments.withhold, *self._order.hidden)
                self.graded = make_grading_copy(self.workspace, preparation.folder / "sealed", never, self.system)
        except OSError as error:
            self._environment.grading = None
            cause = Cause.TAMPERED if error.errno in _ATTACKED else Cause.SANDBOX
            return TrialError(cause, f"no place for grading can be made: {error}")
        problems += venv_problems
        if self.graded is not None and self.graded.truncated:
            problems.append(f"the workspace, which holds more than can be graded ({GRADING_LIMITS.described})")
        if not problems:
            return None
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        return TrialError(Cause.TAMPERED, f"the agent changed what graders would use: {'; '.join(problems[:3])}{more}")

    # -- processes

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
        command = self._command(argv, phase, timeout, env or {}, output_limit, stdin, False)
        if phase in (Phase.GRADE, Phase.RUN) and not self._workspace_is_there():
            return ProcessResult(126, stderr=b"the workspace was removed or replaced by a link\n")
        with self._bounded():
            return self._enclosure(phase).run(command)

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
        command = self._command(argv, phase, timeout, env or {}, output_limit, stdin, private_output)
        with self._bounded():
            return (yield from self._enclosure(phase).stream(command, wake))

    @contextlib.contextmanager
    def _bounded(self) -> Iterator[None]:
        """What took too much of the disk is told as that, however it ended."""
        try:
            yield
        except TrialError:
            if self._watch is not None:
                self._watch.refuse()
            raise
        if self._watch is not None:
            self._watch.refuse()

    def _start_watch(self, phase: Phase) -> None:
        """What the agent takes is all that lies in the trial's directory; graders and what they run have the copy."""
        limit = self._order.config.limits.max_disk_mb
        folders = [self.root]
        if phase is not Phase.AGENT:
            grading, running = self._environment.places_of(Phase.GRADE), self._environment.places_of(Phase.RUN)
            folders = [self.workspace, grading.home, grading.tmp, grading.cache, running.home, running.tmp]
        self._watch = DiskWatch(folders, limit << 20 if limit is not None else None, self._stop)

    def _stop(self) -> None:
        for enclosure in tuple(self._enclosures.values()):
            enclosure.abort()

    def serve(self, take: Take) -> Served:
        """See `protocol.Sandbox.serve`."""
        self._check_order(Phase.AGENT)
        if self.system.own_network:
            self._enclosure(Phase.AGENT)
        else:
            self._end(Phase.AGENT)
        return self._services.add(take)

    @property
    def connections(self) -> ConnectionLog | None:
        """See `protocol.Sandbox.connections`."""
        return self._gate.log if self._gate is not None else None

    def run_tool(self, argv: Sequence[str], *, cwd: Path, timeout: float) -> ProcessResult:
        """See `protocol.Sandbox.run_tool`."""
        return self.system.run_tool(argv, cwd, timeout)

    def _command(
        self,
        argv: Sequence[str],
        phase: Phase,
        timeout: float,
        env: Mapping[str, str],
        output_limit: int,
        stdin: bytes,
        private_output: bool,
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
            private_output=private_output,
        )

    def _check_order(self, phase: Phase) -> None:
        if phase not in (Phase.GRADE, Phase.RUN) and self._environment.grading is not None:
            raise TrialError(Cause.UNEXPECTED, f"a run in {phase} after grading has begun")
        if phase is Phase.AGENT:
            self.end_preparation()

    def _enclosure(self, phase: Phase) -> Enclosure:
        if phase not in self._enclosures:
            if self.system.owner is not None:
                self._hand_over(phase, self.system.owner)
            self._enclosures[phase] = enclosure = self.system.enclose(phase, self._view(phase))
            if self._watch is None and phase is not Phase.PREPARE:
                self._start_watch(phase)
            if phase is Phase.AGENT:
                self._services.attach(enclosure.listen)
                if self._gate is not None:
                    self._gate.open(enclosure.listen)
        return self._enclosures[phase]

    def _hand_over(self, phase: Phase, owner: Owner) -> None:
        """Give what the processes of a phase write to to their user.

        RUN begins while GRADE works in what they share, which was handed over then.
        """
        places = self._environment.places_of(phase)
        shared = [] if phase is Phase.RUN and Phase.GRADE in self._enclosures else [self.workspace, self.venv]
        for folder in (*shared, places.home, places.tmp, places.cache):
            if folder is not None:
                hand_over(folder, owner)

    def _end(self, phase: Phase) -> None:
        """End an environment. One whose end was interrupted is kept, so that the next call proves it."""
        if (enclosure := self._enclosures.get(phase)) is None:
            return
        try:
            enclosure.end()
        except TrialError:
            del self._enclosures[phase]
            raise
        else:
            del self._enclosures[phase]
        finally:
            if phase is Phase.AGENT:
                self._services.detach()
                if self._gate is not None:
                    self._gate.close()

    def _workspace_is_there(self) -> bool:
        return self.workspace.is_dir() and os.path.realpath(self.workspace) == str(self.workspace)

    # -- files

    def write_file(self, path: str, content: bytes, executable: bool = False) -> None:
        """See `protocol.Sandbox.write_file`."""
        write_beneath(self.workspace, path, content, executable, owner=self.system.owner)

    def make_folder(self, path: str) -> None:
        """See `protocol.Sandbox.make_folder`."""
        make_folder_beneath(self.workspace, path, owner=self.system.owner)

    def write_home(self, path: str, content: bytes) -> None:
        """See `protocol.Sandbox.write_home`."""
        write_beneath(self.home, path, content, False, owner=self.system.owner)

    def provide(self, source: Path, name: str) -> Path:
        """See `protocol.Sandbox.provide`."""
        target = self._sight.provided / name
        target.parent.mkdir(0o755, parents=True, exist_ok=True)
        shutil.copytree(source, target, symlinks=True, ignore=_links)
        return target

    # -- the end

    def reap(self) -> None:
        """See `protocol.Sandbox.reap`. The sandbox can be used again afterwards."""
        self._end_all()
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
            watch.look()
            watch.refuse()

    def _end_all(self) -> None:
        first: TrialError | None = None
        for phase in tuple(self._enclosures):
            try:
                self._end(phase)
            except TrialError as error:
                first = first or error
        if first is not None:
            raise first

    def close(self) -> None:
        """Reap, then remove everything on disk. May be called twice. Does nothing in a forked copy of the process."""
        if self._closed or self._owner != os.getpid():
            return
        try:
            self._end_all()
        finally:
            self._closed = True
            self._services.close()
            if self._watch is not None:
                self._watch.close()
            try:
                self.system.close()
            finally:
                self.leftovers = remove_tree(self.root)


def _full_plan(order: Order, variables: Mapping[str, str]) -> EnvironmentPlan:
    plan, config = order.environments, order.config
    return EnvironmentPlan(
        passthrough=(*plan.passthrough, *config.env_passthrough, *order.passthrough),
        extra={**plan.extra, **config.env},
        withhold=plan.withhold,
        basics=variables,
    )


def _links(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder, name).is_symlink()]
