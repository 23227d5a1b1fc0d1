"""What a task mounts into its sandbox from the host: nothing that tells how it is judged, nothing dangerous."""

from __future__ import annotations

import dataclasses
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Cause, TrialError
from ..task.variables import UndefinedVariable, expand_variables
from .answer_keys import named_answer_keys
from .copying import Destination
from .enclosure import Mount, Owner
from .host_path import host_path
from .key_places import KeyPlaces
from .legibility import may_read
from .ownership import hand_over

if TYPE_CHECKING:
    from ..task.docker_models import ExtraMount
    from ..task.models import SandboxConfig, Task

LARGEST_COPY = 2 << 30
"""Bytes of a source that is copied."""

MOST_ENTRIES = 500_000
"""Files and folders of a source."""

_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""Where programs of all phases are found: nothing that the agent can write to lies there."""

_COPIES = "mounts"
"""Below the root of the sandbox: the copies that preparation, the agent and its programs work with."""

_KERNEL = ("/proc", "/sys", "/dev")
_SOCKETS = ("/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock")
_CREDENTIALS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config/gcloud", ".config/gh", ".netrc", ".npmrc"),
    *(".pypirc", ".git-credentials", ".config/git/credentials", ".password-store", ".local/share/keyrings"),
    *(".vault-token", ".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".config/op", ".pgpass"),
)
"""Below HOME: what lets somebody act as the operator."""

_SYSTEM_SECRETS = ("/etc/shadow", "/etc/gshadow", "/etc/ssh", "/root/.ssh")
_HOME_VARIABLE = re.compile(r"\$\{?HOME(?![A-Za-z0-9_])\}?")


def extra_mounts(
    config: SandboxConfig,
    task: Task | None,
    task_dir: Path,
    root: Path,
    answer_keys: Collection[Path] = (),
    *,
    owner: Owner | None = None,
) -> tuple[Mount, ...]:
    """The mounts of `extra_mounts`, in their order, for the view of every phase but GRADE; for that see `unspoilt`.

    A source is relative to the folder of the task; `~` and `$HOME` in a target are the HOME of the agent below `root`.
    What is writable and not shared, what holds answer keys, and what the user of the sandbox, `owner`, could not read
    is copied to `root`; the copy is his. `answer_keys` are more of what no agent may see, such as the run directory.

    Raises TrialError(CONFIGURATION) that names the entry for a source that is not there, lies in an answer key, or
    must not be given away, and for a target that nothing can be mounted at.
    """
    named = named_answer_keys(task, task_dir) if task is not None else []
    keys = KeyPlaces(task_dir, named, answer_keys)
    made = []
    for index, setting in enumerate(config.docker.mounts):
        where = f"sandbox.docker.extra_mounts[{index}]"
        source = _source(setting, task_dir, keys, where)
        target = _target(setting, root / "home", where)
        made.append(_mounted(source, target, root / _COPIES / str(index), owner))
    return tuple(made)


def unspoilt(mounts: Iterable[Mount], root: Path, owner: Owner | None = None) -> tuple[Mount, ...]:
    """The mounts for the view of GRADE, made of those of `extra_mounts` when preparation has ended.

    In place of each copy that the agent may write to comes another one, as preparation has left it; it is `owner`'s.
    Raises OSError.
    """
    made = []
    for index, mount in enumerate(mounts):
        if mount.writable and mount.source.is_relative_to(root / _COPIES):
            copy = _copy_again(mount.source, root / f"{_COPIES}-of-graders" / str(index))
            if owner is not None:
                hand_over(copy, owner)
            made.append(dataclasses.replace(mount, source=copy))
        else:
            made.append(mount)
    return tuple(made)


def _copy_again(source: Path, place: Path) -> Path:
    """A copy of files, folders and links below `place`, which is made for it."""
    destination = _place_for_copy(place)
    todo = [source.name]
    while todo:
        path = todo.pop()
        original = source.parent / path
        mode = original.lstat().st_mode
        if stat.S_ISLNK(mode):
            destination.link(path, str(original.readlink()))
        elif stat.S_ISDIR(mode):
            destination.folder(path, mode)
            todo += [f"{path}/{entry.name}" for entry in original.iterdir()]
        elif stat.S_ISREG(mode):
            destination.copy(original, path)
    return place / source.name


def _place_for_copy(place: Path) -> Destination:
    place.mkdir(0o755, parents=True)
    place.parent.chmod(0o755)
    return Destination(place)


@dataclasses.dataclass(frozen=True)
class _Source:
    """What is mounted: a real path, how, and the entries of it that must not be seen."""

    path: str
    where: str
    writable: bool
    shared: bool
    keys: KeyPlaces


def _source(setting: ExtraMount, task_dir: Path, keys: KeyPlaces, where: str) -> _Source:
    given = host_path(setting.source, task_dir, where)
    path = os.path.realpath(given)
    source = _Source(path, where, setting.mode == "rw", setting.shared, keys)
    if not os.path.lexists(path):
        raise _mistake(source, f"there is nothing at {given}")
    if (danger := _danger(path)) is not None:
        raise _mistake(source, f"{setting.source!r} cannot be mounted: {danger}")
    try:
        if keys.hold(path):
            raise _mistake(source, f"{setting.source!r} cannot be mounted: it is an answer key or lies in one")
        if Path(path).is_dir() and keys.is_of_tasks(path):
            reason = "it is a folder of tasks, with what grades them; name one in it"
            raise _mistake(source, f"{setting.source!r} cannot be mounted: {reason}")
    except OSError as error:
        raise _mistake(source, f"{path} cannot be read: {error}") from error
    return source


def _danger(path: str) -> str | None:
    """Why a real path is given to nobody."""
    mode = os.lstat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return "it is neither a file nor a folder"
    if path == "/" or any(_holds(place, path) for place in _KERNEL):
        return "it is the system itself"
    home = os.path.realpath(Path.home())
    if _holds(path, home):
        return "it holds the whole HOME of the user who runs this"
    for secret in (*(f"{home}/{name}" for name in _CREDENTIALS), *_SYSTEM_SECRETS):
        real = os.path.realpath(secret)
        if os.path.lexists(real) and (_holds(real, path) or _holds(path, real)):
            return f"it gives away {secret}"
    for socket in (*_SOCKETS, *_configured_sockets()):
        if os.path.lexists(socket) and _holds(path, os.path.realpath(socket)):
            return f"it holds {socket}, which rules the host"
    return None


def _configured_sockets() -> Iterator[str]:
    for name in ("DOCKER_HOST", "CONTAINER_HOST", "SSH_AUTH_SOCK"):
        value = os.environ.get(name, "").removeprefix("unix://")
        if value.startswith("/"):
            yield value


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def _target(setting: ExtraMount, home: Path, where: str) -> Path:
    from ..task.docker_models import target_error

    text = setting.target
    if text == "~" or text.startswith("~/"):
        text = f"{home}{text[1:]}"
    try:
        text = expand_variables(_HOME_VARIABLE.sub(lambda _: str(home), text))
    except UndefinedVariable as error:
        raise TrialError(Cause.CONFIGURATION, f"{where}: {setting.target!r}: {error}") from None
    problem = target_error(text) if text.startswith("/") else "expected an absolute destination"
    if problem is None and text.rstrip("/") == str(home):
        problem = "the HOME of the agent is made by the harness"
    target = os.path.normpath(f"/{text.lstrip('/')}")
    if problem is None and setting.mode == "rw":
        problem = _program_folder_error(target)
    if problem is not None:
        raise TrialError(Cause.CONFIGURATION, f"{where}: {setting.target!r}: {problem}")
    return Path(target)


def _program_folder_error(target: str) -> str | None:
    """Why nothing writable can be mounted there, or None."""
    for folder in _PATH:
        if _holds(folder, target) or _holds(target, folder):
            return f"{folder} is a folder of PATH, whose programs graders run: nothing writable can be mounted there"
    return None


def _mounted(source: _Source, target: Path, place: Path, owner: Owner | None) -> Mount:
    found = _Found()
    _look_through(source, owner, found)
    if source.shared:
        if found.pruned:
            raise _mistake(source, f"a shared mount cannot hold answer keys or sockets, such as {found.pruned[0]}")
        return Mount(Path(source.path), target, writable=True)
    if not source.writable and not found.pruned and not found.unreadable:
        return Mount(Path(source.path), target)
    if found.size > LARGEST_COPY:
        raise _mistake(source, f"it has {found.size >> 20} MB, more than the {LARGEST_COPY >> 20} MB that are copied")
    try:
        copy = _copy(source, place, found)
        if owner is not None:
            hand_over(copy, owner)
    except OSError as error:
        raise TrialError(Cause.SANDBOX, f"{source.where}: {source.path} cannot be copied: {error}") from error
    return Mount(copy, target, writable=source.writable)


@dataclasses.dataclass
class _Found:
    """What a source has: bytes, relative paths of all entries to be seen, of those to be left out."""

    size: int = 0
    wanted: list[str] = dataclasses.field(default_factory=list)
    pruned: list[str] = dataclasses.field(default_factory=list)
    unreadable: bool = False


def _look_through(source: _Source, owner: Owner | None, found: _Found) -> None:
    """Raises TrialError(CONFIGURATION) for a source with too many entries, and for one that cannot be read."""
    try:
        _note(os.lstat(source.path), owner, found)
        todo = [""] if Path(source.path).is_dir() else []
        while todo:
            folder = todo.pop()
            with os.scandir(f"{source.path}/{folder}") as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if not _is_wanted(entry, source.keys):
                        found.pruned.append(path)
                        continue
                    found.wanted.append(path)
                    if not entry.is_symlink():
                        _note(entry.stat(follow_symlinks=False), owner, found)
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(path)
            if len(found.wanted) > MOST_ENTRIES:
                raise _mistake(source, f"it has more than {MOST_ENTRIES} files and folders")
    except OSError as error:
        raise _mistake(source, f"{source.path} cannot be read: {error}") from error


def _is_wanted(entry: os.DirEntry[str], keys: KeyPlaces) -> bool:
    known = entry.is_symlink() or entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    return known and not keys.drop(entry.path)


def _note(found_stat: os.stat_result, owner: Owner | None, found: _Found) -> None:
    if stat.S_ISREG(found_stat.st_mode):
        found.size += found_stat.st_size
    found.unreadable = found.unreadable or (owner is not None and not may_read(found_stat, owner))


def _copy(source: _Source, place: Path, found: _Found) -> Path:
    """A copy below `place`, which is made for it. Raises OSError."""
    destination = _place_for_copy(place)
    name = Path(source.path).name
    if not Path(source.path).is_dir():
        destination.copy(Path(source.path), name)
        return place / name
    destination.folder(name, os.lstat(source.path).st_mode)
    for path in found.wanted:
        original = Path(source.path, path)
        if original.is_symlink():
            destination.link(f"{name}/{path}", str(original.readlink()))
        elif original.is_dir():
            destination.folder(f"{name}/{path}", original.lstat().st_mode)
        else:
            destination.copy(original, f"{name}/{path}")
    return place / name


def _mistake(source: _Source, message: str) -> TrialError:
    return TrialError(Cause.CONFIGURATION, f"{source.where}: {message}")
