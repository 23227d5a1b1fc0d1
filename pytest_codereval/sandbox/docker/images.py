"""Which image a trial runs in, and what of it the harness has to know."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import functools
import json
import os
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import Cause, TrialError
from ...trajectory.shell.launchers import MULTI_CALL
from .. import registry
from ..withholding import Withheld
from .building import Plan, build
from .engine import client, daemon, told
from .facts import Look, image_id, looking_into, patient_client
from .leftovers import labels

if TYPE_CHECKING:
    from ..drivers import Order
    from ..enclosure import Owner

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""PATH of an image that sets none, as the daemon has it."""

AGENT_NAME = "agent"
PULL_SILENCE = 900.0
"""Seconds that the daemon may be silent while it pulls an image."""

_NEVER_TAKEN = frozenset({"PATH", "HOME", "TMPDIR", "HOSTNAME", "PWD"})
_DASHES = ("/bin/dash", "/usr/bin/dash")
_FACTS_VERSION = 2


@dataclasses.dataclass(frozen=True)
class Image:
    """An image as the harness sees it. `id` stays the same whatever happens to `name`.

    `path_folders` are the folders of its PATH that are there, `shell` is the shebang of recording shims, `python` the
    path of its python3, `pythons` the names of its interpreters. `working_dir` is empty when the image sets none. `env`
    is what its author set, but for what a sandbox sets itself.
    """

    id: str
    name: str
    path_folders: tuple[str, ...]
    shell: str
    python: str | None
    working_dir: str
    env: Mapping[str, str]
    base_passwd: str = ""
    base_group: str = ""
    pythons: tuple[str, ...] = ()

    def passwd(self, owner: Owner, home: str) -> str:
        """/etc/passwd of the image with a user `agent` of this id, whose HOME is `home`."""
        kept = _without(self.base_passwd, owner.uid)
        return f"{kept}{AGENT_NAME}:x:{owner.uid}:{owner.gid}::{home}:/bin/sh\n"

    def group(self, owner: Owner) -> str:
        """/etc/group of the image with a group `agent` of this id."""
        return f"{_without(self.base_group, owner.gid)}{AGENT_NAME}:x:{owner.gid}:\n"


def image_for(order: Order, answer_keys: Collection[Path] = ()) -> Image:
    """The image that a trial runs in: built from `dockerfile_path`, or by its name, pulled only when it is not here.

    `answer_keys` are files and folders that must never be in the context of a build. This may take minutes; workers of
    one session share the work. Raises TrialError: CONFIGURATION for what the author can change, SANDBOX for a build
    that fails and a daemon that does.
    """
    place = registry.registry(order.root_parent, avoid=Withheld(order.environments.withhold))
    shelf, marks = _shelf(place), labels(place, order.session)
    config = order.config.docker
    if config.dockerfile_path is not None:
        built = build(Plan.of(order, answer_keys), shelf, order.session)
        return _described(built.image_id, built.name, shelf, marks)
    name = config.image or order.image
    if not name:
        raise TrialError(
            Cause.CONFIGURATION, "sandbox.docker.image: the docker driver needs the name of an image or dockerfile_path"
        )
    return _described(_id_of(name, str(shelf)), name, shelf, marks)


def programs(image: Image, names: Collection[str], order: Order | None = None) -> dict[str, tuple[str, ...]]:
    """By name, the regular files of that name in the image's PATH, as absolute paths without links.

    A link counts as what it leads to when that has the same name. A program that also is others, such as busybox, and
    the shell of the shims are never among them. A name that the image does not have has no paths.
    """
    place = registry.registry(order.root_parent if order is not None else None)
    missing = [name for name in names if (image.id, name) not in _programs]
    if missing:
        with looking_into(image.id, labels(place)) as look:
            folders = _real(look, image.path_folders)
            shells = {image.shell.split()[0], *_real(look, ["/bin/sh"])}
            for name in missing:
                _programs[image.id, name] = _program_paths(look, folders, shells, name)
    return {name: _programs[image.id, name] for name in names}


_programs: dict[tuple[str, str], tuple[str, ...]] = {}


def _program_paths(look: Look, folders: Collection[str], shells: Collection[str], name: str) -> tuple[str, ...]:
    if not name or "/" in name or "\0" in name:
        return ()
    found: dict[str, None] = {}
    for folder in folders:
        entry = look.entry(f"{folder}/{name}")
        if entry is not None and entry.target:
            entry = look.entry(entry.target) if posixpath.basename(entry.target) == name else None
        if entry is None or not entry.is_file or not entry.executable:
            continue
        if entry.path not in shells and posixpath.basename(entry.path) not in MULTI_CALL:
            found[entry.path] = None
    return tuple(found)


def _real(look: Look, paths: Iterable[str]) -> list[str]:
    """What is there of `paths`, without links and without repetition."""
    found = [look.resolved(path) for path in paths]
    return list(dict.fromkeys(entry.path for entry in found if entry is not None))


def _shelf(place: registry.Registry) -> Path:
    """Where the workers of this user share what is known of images."""
    folder = place.home.parent / "images"
    folder.mkdir(0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold a lock among the processes of this user."""
    with open(path, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@functools.cache
def _id_of(name: str, shelf: str) -> str:
    """The id of the image of this name, which stays the same for the life of this process."""
    api = client(daemon())
    if (found := image_id(api, name)) is not None:
        return found
    with _only_one(Path(shelf, "pulling")):
        return image_id(api, name) or _pulled(name)


def _pulled(name: str) -> str:
    from docker.utils import parse_repository_tag  # type: ignore[import-untyped]

    what = f"sandbox.docker.image: there is no image {name!r} here, and it cannot be pulled"
    repository, tag = parse_repository_tag(name)
    try:
        with patient_client(PULL_SILENCE) as api, told(what):
            events = api.pull(repository, tag=tag or "latest", stream=True, decode=True)
            problem = next((str(event["error"]) for event in events if "error" in event), None)
            found = image_id(api, name)
    except TrialError as error:
        cause = Cause.CONFIGURATION if _is_unknown(str(error)) else Cause.SANDBOX
        raise TrialError(cause, str(error)) from error
    if problem is not None or found is None:
        problem = problem or "the registry sent none of this name"
        raise TrialError(Cause.CONFIGURATION if _is_unknown(problem) else Cause.SANDBOX, f"{what}: {problem}")
    return found


def _is_unknown(problem: str) -> bool:
    """Whether a registry says that there is no such image, or none for us."""
    return any(words in problem for words in ("denied", "not found", "manifest unknown", "invalid reference"))


def _described(number: str, name: str, shelf: Path, marks: Mapping[str, str]) -> Image:
    known = _facts(number, str(shelf), tuple(marks.items()))
    return dataclasses.replace(known, name=name)


@functools.cache
def _facts(number: str, shelf: str, marks: tuple[tuple[str, str], ...]) -> Image:
    stored = Path(shelf, f"{number.replace(':', '-')}.json")
    if (known := _read(stored)) is not None:
        return known
    with _only_one(stored.with_suffix(".busy")):
        if (known := _read(stored)) is not None:
            return known
        made = _look_at(number, dict(marks))
        _write(stored, made)
        return made


def _read(stored: Path) -> Image | None:
    """What another process found out; None when nobody did, or it cannot be read."""
    try:
        fields = json.loads(stored.read_text(encoding="utf-8"))
        if fields.pop("version") != _FACTS_VERSION:
            return None
        return Image(**{**fields, "path_folders": tuple(fields["path_folders"]), "pythons": tuple(fields["pythons"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(stored: Path, image: Image) -> None:
    fresh = stored.with_suffix(f".{os.getpid()}")
    fields = {"version": _FACTS_VERSION, **dataclasses.asdict(image)}
    fresh.write_text(json.dumps(fields), encoding="utf-8")
    fresh.replace(stored)


def _look_at(number: str, marks: Mapping[str, str]) -> Image:
    with told(f"looking at the image {number[:19]}"):
        settings = client(daemon()).inspect_image(number).get("Config") or {}
    env = dict(item.split("=", 1) for item in settings.get("Env") or () if "=" in item)
    with looking_into(number, marks) as look:
        folders = _folders(look, env.get("PATH") or DEFAULT_PATH)
        return Image(
            id=number,
            name=number,
            path_folders=folders,
            shell=_shim_shell(look, number),
            python=_python(look, folders),
            working_dir=str(settings.get("WorkingDir") or ""),
            env={name: value for name, value in env.items() if name not in _NEVER_TAKEN},
            base_passwd=look.text("/etc/passwd"),
            base_group=look.text("/etc/group"),
            pythons=tuple(_pythons(look, folders)),
        )


def _folders(look: Look, path: str) -> tuple[str, ...]:
    """The absolute folders of a PATH that are there, by the names that PATH has for them."""
    named = dict.fromkeys(posixpath.normpath(folder) for folder in path.split(":") if folder.startswith("/"))
    found = [(folder, look.resolved(folder)) for folder in named]
    return tuple(folder for folder, entry in found if entry is not None and entry.is_folder)


def _shim_shell(look: Look, number: str) -> str:
    """The shebang of shims: dash, else what /bin/sh is, with the option that makes it ignore the environment."""
    for dash in _DASHES:
        found = look.resolved(dash)
        if found is not None and found.is_file and found.executable:
            return found.path
    shell = look.resolved("/bin/sh")
    if shell is None or not shell.is_file or not shell.executable:
        raise TrialError(Cause.CONFIGURATION, f"the image {number[:19]} has no /bin/sh, which every sandbox needs")
    name = posixpath.basename(shell.path)
    if name.startswith("busybox"):
        return f"{shell.path} sh"
    return shell.path if name in ("dash", "ash") else f"{shell.path} -p"


def _python(look: Look, folders: Sequence[str]) -> str | None:
    for folder in folders:
        found = look.resolved(f"{folder}/python3")
        if found is not None and found.is_file and found.executable:
            return f"{folder}/python3"
    return None


def _pythons(look: Look, folders: Sequence[str]) -> list[str]:
    """The names by which interpreters are found; of those with a version only what the others lead to."""
    plain = {name: _found(look, folders, name) for name in ("python", "python3")}
    real = {posixpath.basename(path) for path in plain.values() if path}
    versions = {name for name in real if re.fullmatch(r"python3\.\d+", name) and _found(look, folders, name)}
    return sorted({name for name, path in plain.items() if path} | versions)


def _found(look: Look, folders: Sequence[str], name: str) -> str | None:
    """The real path of a program."""
    entries = (look.resolved(f"{folder}/{name}") for folder in folders)
    return next((entry.path for entry in entries if entry is not None and entry.is_file and entry.executable), None)


def _without(accounts: str, number: int) -> str:
    """The lines of a passwd or group file that have neither this number nor the agent's name."""
    kept = []
    for line in accounts.splitlines():
        fields = line.split(":")
        if line and fields[0] != AGENT_NAME and not (len(fields) > 2 and fields[2] == str(number)):
            kept.append(f"{line}\n")
    return "".join(kept)
