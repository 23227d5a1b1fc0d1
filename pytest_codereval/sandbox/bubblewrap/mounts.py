"""What processes see of the disk: the options of bwrap for a view.

Nothing is there but what is asked for. A hidden place is covered wherever a mount would show it. What was asked for by
name and lies *below* a hidden place is seen nevertheless, such as a virtual environment in a hidden checkout.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ...trajectory.shell.launchers import MULTI_CALL
from ..enclosure import Mount, View
from ..exposure import SYSTEM_FOLDERS, USUAL_FOLDERS
from .system_files import SystemFiles

_MOST_LINKS = 40


class Layer(NamedTuple):
    """Something that lies at `target`, over what was there: what is at `source`, or something new."""

    target: str
    source: str | None
    writable: bool = False


class MountPlan:
    """Options are collected in the order in which bwrap applies them."""

    def __init__(self, files: SystemFiles, hidden: Sequence[str]) -> None:
        self.options: list[str] = []
        self._files = files
        self._hidden = tuple(hidden)
        self._layers: list[Layer] = [Layer("/", None)]
        self._masks: list[str] = []
        self._folders: set[tuple[str, str]] = set()

    def copy(self) -> MountPlan:
        """One to which more can be added."""
        made = MountPlan(self._files, self._hidden)
        made.options, made._layers = [*self.options], [*self._layers]
        made._masks, made._folders = [*self._masks], {*self._folders}
        return made

    # -- the system

    def add_system(self, shared_memory: int | None, resolver: bool, hosts: Mapping[str, str]) -> None:
        """Programs and libraries, a few files of /etc, and places of its own for what is written at run time.

        `shared_memory` is the size of each of these places in bytes. `resolver` tells that names are looked up
        outside, `hosts` are addresses by name.
        """
        for folder in SYSTEM_FOLDERS[:7]:
            self._add_system_folder(folder)
        self._add_new("/proc", "--proc")
        self._add_new("/dev", "--dev")
        self._add_new("/run", "--perms", "0755", *_sized(shared_memory), "--tmpfs")
        for folder in ("/dev/shm", "/tmp", "/var/tmp"):
            self._add_new(folder, "--perms", "1777", *_sized(shared_memory), "--tmpfs")
        for folder in SYSTEM_FOLDERS[7:]:
            self._add_system_folder(folder)
        self._bind(Layer("/etc", str(self._files.etc)))
        for target, source in {**self._files.folders, **self._files.resolving(resolver, hosts)}.items():
            self._bind(Layer(target, source))

    def _add_system_folder(self, folder: str) -> None:
        place = Path(folder)
        if place.is_symlink() and place.parent == Path("/"):
            self.options += ["--symlink", str(place.readlink()), folder]
        elif place.is_dir():
            self._bind(Layer(folder, os.path.realpath(folder)))

    def _add_new(self, target: str, *options: str) -> None:
        self._make_way(target)
        self.options += [*options, target]
        self._layers.append(Layer(target, None))

    def _make_way(self, target: str) -> None:
        """Make the folders above a target that are not there, as bwrap makes them for nobody but their owner."""
        above = list(itertools.takewhile(lambda folder: folder != "/", map(str, Path(target).parents)))
        for folder in reversed(above):
            layer = self._layer_at(folder)
            if layer.source is None and folder != layer.target and (folder, layer.target) not in self._folders:
                self._folders.add((folder, layer.target))
                self.options += ["--perms", "0755", "--dir", folder]

    # -- what is asked for

    def add(self, mounts: Sequence[Mount]) -> None:
        """Lay mounts over each other in their order, those below a hidden place after all others."""
        layers = [Layer(str(mount.target), os.path.realpath(mount.source), mount.writable) for mount in mounts]
        for layer in sorted(layers, key=lambda layer: self.depth(layer.source or "")):
            self._bind(layer)

    def depth(self, source: str) -> int:
        """How many hidden places a file or folder of the harness's disk lies below."""
        return sum(is_below(source, place) for place in self._hidden)

    def _bind(self, layer: Layer) -> None:
        source = layer.source
        if source is None or source in self._hidden or not os.path.lexists(source):
            return
        target = self._without_links(layer.target)
        if self._shown(target) == (source, layer.writable):
            return
        self._make_way(target)
        self.options += ["--bind" if layer.writable else "--ro-bind", source, target]
        self._layers.append(Layer(target, source, layer.writable))
        for place in self._hidden:
            if is_below(place, source) and os.path.lexists(place):
                self._mask(_join(target, os.path.relpath(place, source)), Path(place).is_dir())

    def _mask(self, target: str, is_folder: bool) -> None:
        if is_folder:
            self.options += ["--perms", "0555", "--size", "65536", "--tmpfs", target]
            self._masks.append(target)
        else:
            self.options += ["--ro-bind", self._files.nothing, target]
        self._layers.append(Layer(target, None))

    def _shown(self, path: str) -> tuple[str, bool] | None:
        """What of the harness's disk is seen at `path` so far, and whether it can be written to."""
        layer = self._layer_at(path)
        if layer.source is None:
            return None
        return _join(layer.source, os.path.relpath(path, layer.target)), layer.writable

    def _layer_at(self, path: str) -> Layer:
        return next(layer for layer in reversed(self._layers) if path == layer.target or is_below(path, layer.target))

    def _without_links(self, path: str) -> str:
        """`path` with the links resolved that are seen on the way there, as nothing can be mounted over a link."""
        left = [part for part in reversed(path.split("/")) if part]
        done = "/"
        for _ in range(_MOST_LINKS + path.count("/")):
            if not left:
                break
            here = _join(done, left.pop())
            shown = self._shown(here)
            link = shown[0] if shown is not None else here if here in SYSTEM_FOLDERS else None
            if link is None or not Path(link).is_symlink():
                done = here
                continue
            target = os.path.normpath(Path(done, Path(link).readlink()))
            left += [part for part in reversed(target.split("/")) if part]
            done = "/"
        return _join(done, "/".join(reversed(left)))

    # -- shims

    def cover(self, shims: Mapping[str, Path], folders: Sequence[str]) -> None:
        """Lay shims over the programs of their names in these folders and the usual ones.

        A link's target is covered when it has the same name: under another it is another program too.
        """
        for name, shim in shims.items():
            programs = {os.path.realpath(_join(folder, name)) for folder in (*folders, *USUAL_FOLDERS)}
            for program in sorted(programs):
                if Path(program).name == name and name not in MULTI_CALL and os.path.lexists(program):
                    self._cover(program, str(shim))

    def _cover(self, program: str, shim: str) -> None:
        for target in self._places_of(program):
            self.options += ["--ro-bind", shim, target]
            self._layers.append(Layer(target, shim))

    def _places_of(self, source: str) -> Iterator[str]:
        """The paths by which a file of the harness's disk is seen, apart from a shim itself."""
        for layer in tuple(self._layers):
            if layer.source is not None and (source == layer.source or is_below(source, layer.source)):
                target = _join(layer.target, os.path.relpath(source, layer.source))
                shown = self._shown(target)
                if shown is not None and shown[0] == source:
                    yield target

    # -- the end

    def finish(self) -> list[str]:
        """All options; nothing but the mounts that are meant for it can be written to."""
        for target in self._masks:
            self.options += ["--remount-ro", target]
        return [*self.options, "--remount-ro", "/", "--chdir", "/"]


@dataclasses.dataclass(frozen=True)
class Base:
    """What all views of a sandbox have in common.

    `exposed` is what the programs in `folders`, those of PATH, need. See `MountPlan.add_system` for `shared_memory`.
    """

    files: SystemFiles
    exposed: tuple[Path, ...]
    folders: tuple[str, ...]
    shared_memory: int | None = None


def plan(base: Base, view: View, *, hosts: Mapping[str, str]) -> list[str]:
    """The options of bwrap for a view; `hosts` are addresses by name."""
    hidden = tuple(dict.fromkeys(map(os.path.realpath, view.hidden)))
    there = tuple(place for place in hidden if os.path.lexists(place))
    common, below_hidden = _common(base, hidden, there, view.network.kind == "shared", tuple(hosts.items()))
    made = common.copy()
    made.add([*below_hidden, *view.mounts])
    made.cover(view.shims, base.folders)
    return made.finish()


@functools.lru_cache(maxsize=64)
def _common(
    base: Base, hidden: tuple[str, ...], there: tuple[str, ...], resolver: bool, hosts: tuple[tuple[str, str], ...]
) -> tuple[MountPlan, tuple[Mount, ...]]:
    """The system and what programs need of the rest, and apart from it what of that lies below a hidden place.

    The same for all trials of a session as long as the hidden places that are `there` are the same.
    """
    made = MountPlan(base.files, hidden)
    made.add_system(base.shared_memory, resolver, dict(hosts))
    mounts = {Mount(path, path): made.depth(os.path.realpath(path)) > 0 for path in sorted(base.exposed)}
    made.add([mount for mount, is_hidden in mounts.items() if not is_hidden])
    return made, tuple(mount for mount, is_hidden in mounts.items() if is_hidden)


def is_below(path: str, place: str) -> bool:
    """Whether `path` lies in `place` and is not it."""
    return path != place and path.startswith(place.rstrip("/") + "/")


def _join(folder: str, name: str) -> str:
    return os.path.normpath(f"{folder.rstrip('/')}/{name}")


def _sized(size: int | None) -> list[str]:
    return ["--size", str(size)] if size is not None else []
