"""The `docker` driver: each phase of a trial is a container of its own, of the same image."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...errors import Cause, TrialError
from .. import registry
from ..directory import DirectorySandbox
from ..drivers import Availability, Isolation, Order
from ..enclosure import Mount, Network, Owner, View
from ..environment import SearchPath
from ..gate import addresses
from ..network import network_of
from ..ownership import AGENT, hand_over
from ..protocol import Phase, ProcessResult
from ..removal import remove_tree
from ..supervision import Command
from ..tempdir import shut_down
from ..withholding import Withheld
from .account import account
from .archives import seed_workspace, working_dir_of
from .containers import Container, Limits, Setting, name_of
from .engine import Daemon, daemon, look
from .execution import ContainerProcesses
from .images import AGENT_NAME, Image, image_for, programs
from .leftovers import labels
from .mounting import mounts_of, refuse_overlap

TOOL = "tool"
"""Takes the place of the phase in the names of containers for `run_tool`."""

_NOT_OF_IMAGES = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/etc")
"""What each container has of its own."""

_PASSED_TO_TOOLS = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
"""What installers of packages need of the harness's environment, beside all that begins with PIP_."""


class DockerDriver:
    """Containers of the Docker daemon of this machine."""

    name = "docker"
    isolation = Isolation.DOCKER

    def availability(self, order: Order | None = None) -> Availability:
        """See `drivers.Driver.availability`."""
        found = look()
        if isinstance(found, str):
            return Availability(False, found)
        if order is None:
            return Availability(True)
        reason = _lack_of_image(order) or _lack_of_limits(order, found)
        return Availability(reason is None, reason or "")

    def create(self, order: Order) -> DirectorySandbox:
        """See `drivers.Driver.create`."""
        used = daemon()
        if (lack := _lack_of_limits(order, used)) is not None:
            raise TrialError(Cause.SANDBOX, f"the driver {self.name!r} cannot be had: {lack}")
        place = registry.registry(order.root_parent, avoid=Withheld(order.environments.withhold))
        image = image_for(order, (*order.hidden, *order.answer_keys))
        root = place.new_root()
        try:
            system = DockerSystem(place, root, order, image, used)
        except BaseException:
            remove_tree(root)
            raise
        return DirectorySandbox(place, _with_passthrough(order), system, root)


def _lack_of_image(order: Order) -> str | None:
    config = order.config.docker
    if config.image or config.dockerfile_path or order.image:
        return None
    return "no image is named: set sandbox.docker.image or dockerfile_path in the task, or ini codereval_image"


def _lack_of_limits(order: Order, found: Daemon) -> str | None:
    asked = order.config.limits
    wanted = {"memory": asked.max_memory_mb, "cpus": asked.max_cpus, "pids": True}
    lacking = [name for name, value in wanted.items() if value and name not in found.limits]
    return f"the Docker daemon cannot limit {', '.join(lacking)} on this machine" if lacking else None


def _with_passthrough(order: Order) -> Order:
    return dataclasses.replace(order, passthrough=(*order.passthrough, *order.config.docker.passed_names))


class ImagePath(SearchPath):
    """The PATH of an image."""

    def __init__(self, folders: Sequence[str], pythons: Sequence[str] = ()) -> None:
        self.folders = tuple(folders)
        self.pythons = tuple(pythons)

    def python_wrappers(self, folder: Path, name_of: object = None) -> list[str]:
        """None: an image is what its author made it."""
        return []


_systems: weakref.WeakSet[DockerSystem] = weakref.WeakSet()


class DockerSystem:
    """An image, and a container of it for each phase. See `directory.System`."""

    driver = DockerDriver.name
    python = "python3"
    can_mount = True
    own_network = True

    def __init__(self, place: registry.Registry, root: Path, order: Order, image: Image, used: Daemon) -> None:
        self._place = place
        self._root = root
        self._order = order
        self._image = image
        self._daemon = used
        self._made: list[ContainerProcesses] = []
        self._process = os.getpid()
        self.owner = AGENT if os.getuid() == 0 else None
        self._user = self.owner or Owner(os.getuid(), os.getgid())
        self.shim_shell: str | None = image.shell
        self.search_path: SearchPath = ImagePath(image.path_folders, image.pythons)
        self.variables: Mapping[str, str] = {
            "LANG": "C.UTF-8",
            **image.env,
            "USER": AGENT_NAME,
            "LOGNAME": AGENT_NAME,
        }
        self.network: Network = network_of(order.config, shared_by_default=True)
        limits = Limits.of(order.config.limits, used)
        self._limits = limits
        self.described: Mapping[str, object] = account(image, self.owner, self.network, limits, used)
        self._own = self._accounts()
        self._targets = {root, *order.environments.withhold, *order.hidden, *map(Path, _NOT_OF_IMAGES)}
        self._targets.update(mount.target for mount in self._own)
        self._mounted = Withheld(self._targets)
        asked = working_dir_of(order.config, image)
        self._working_dir = Path(asked) if asked is not None else None
        if self._working_dir is not None:
            refuse_overlap(self._working_dir, (root, *order.environments.withhold))
        _systems.add(self)

    def _accounts(self) -> list[Mount]:
        """The users and groups of the image, with the agent's among them."""
        made = []
        home = str(self._root / "home")
        texts = {"passwd": self._image.passwd(self._user, home), "group": self._image.group(self._user)}
        folder = self._root / "accounts"
        folder.mkdir(0o755)
        for name, text in texts.items():
            path = folder / name
            path.write_text(text, encoding="utf-8")
            path.chmod(0o644)
            made.append(Mount(path, Path("/etc", name)))
        return made

    def seed(self, workspace: Path) -> Sequence[str]:
        """See `directory.System.seed`. What the image holds in the task's `working_dir`."""
        if self._working_dir is None or not self._order.seeded:
            return ()
        marks = labels(self._place, self._order.session, self._order.trial)
        return seed_workspace(self._image, str(self._working_dir), workspace, marks).left_out

    def host_path_of(self, path: str) -> str:
        """See `directory.System.host_path_of`. What is below `working_dir` is below the workspace."""
        if self._working_dir is None:
            return path
        plain = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
        place = str(self._working_dir)
        if plain != place and not plain.startswith(f"{place}/"):
            return path
        return f"{self._root}/workspace{plain[len(place) :]}"

    def holds(self, path: str) -> bool:
        """See `directory.System.holds`. All but what is mounted: that belongs to the harness or to the task."""
        return path.startswith("/") and not self._mounted.holds(path)

    def enclose(self, phase: Phase, view: View) -> ContainerProcesses:
        """See `directory.System.enclose`."""
        self._targets.update(mount.target for mount in view.mounts)
        self._mounted = Withheld(self._targets)
        enclosure = self._enclose(str(phase), view)
        self._made.append(enclosure)
        return enclosure

    def _enclose(self, name: str, view: View) -> ContainerProcesses:
        folder = self._root / f"pipes-{name}"
        try:
            folder.mkdir(0o711, exist_ok=True)
            folder.chmod(0o711)
        except OSError as error:
            raise TrialError(Cause.SANDBOX, f"no sandbox can be made: {error}") from error
        own = [*self._own, Mount(folder, folder)]
        workspace, alias = self._root / "workspace", None
        if self._working_dir is not None:
            alias = Mount(workspace, self._working_dir, writable=True)
        cwds = {str(workspace): str(self._working_dir or workspace)}
        covered = programs(self._image, list(view.shims), self._order) if view.shims else {}
        setting = Setting(
            image=self._image.id,
            shell=tuple(self._image.shell.split()),
            labels=labels(self._place, self._order.session, self._order.trial),
            mounts=mounts_of(view, covered, own, alias),
            limits=self._limits,
            network="bridge" if view.network.kind == "shared" else "none",
            hosts=addresses(view.network.allowed),
        )
        full_name = name_of(self._order.session, self._place.home.name, self._root.name, name)

        def make() -> Container:
            return Container(self._daemon, self._place, full_name, setting)

        return ContainerProcesses(make, folder, self._user, self._image.python, cwds)

    def run_tool(self, argv: Sequence[str], cwd: Path, timeout: float) -> ProcessResult:
        """See `directory.System.run_tool`. In a container with the network; it can write to workspace and `venv`.

        What pip, uv and npm have fetched is kept for the other trials of this process.
        """
        venv, workspace, fetched = self._root / "venv", self._root / "workspace", self._place.home / "fetched"
        for folder in (venv, fetched):
            folder.mkdir(0o755, exist_ok=True)
        writable = [folder for folder in (venv, workspace, fetched) if folder.is_dir()]
        if self.owner is not None:
            for folder in writable:
                hand_over(folder, self.owner)
        mounts = [Mount(cwd, cwd), *(Mount(folder, folder, writable=True) for folder in writable)]
        view = View(cwd, tuple(mounts), hidden=self._order.hidden)
        enclosure = self._enclose(TOOL, view)
        path = os.pathsep.join(self.search_path.folders)
        own = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name in _PASSED_TO_TOOLS}
        caches = {name: f"{fetched}/{name.lower()}" for name in ("PIP_CACHE_DIR", "UV_CACHE_DIR", "NPM_CONFIG_CACHE")}
        env = {**self.variables, **own, **caches, "PATH": path, "HOME": "/tmp", "TMPDIR": "/tmp"}
        try:
            return enclosure.run(
                Command(argv, str(cwd), env, timeout=timeout, output_limit=1_000_000, scoped=False, reap=True)
            )
        finally:
            enclosure.end()

    def close(self) -> None:
        """See `directory.System.close`."""
        if self._process != os.getpid():
            return
        while self._made:
            self._made[-1].end()
            self._made.pop()
        _systems.discard(self)


def _shut_down() -> None:
    """Remove the containers that this process has left, then what they worked on."""
    for system in tuple(_systems):
        with contextlib.suppress(TrialError):
            system.close()
    shut_down()


atexit.register(_shut_down)
