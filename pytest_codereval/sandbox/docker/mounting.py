"""How a view of the harness's disk becomes mounts of a container."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from ...errors import Cause, TrialError
from ..enclosure import Mount, View

_COVER_BYTES = 4096


def mounts_of(
    view: View,
    programs: Mapping[str, Sequence[str]],
    own: Iterable[Mount] = (),
    alias: Mount | None = None,
) -> list[dict[str, Any]]:
    """The mounts of a view, as the engine's API has them; `own` ones come first.

    `programs` are the paths of the image at which each tool of `view.shims` lies. `alias` is the second place of the
    workspace. Raises TrialError(CONFIGURATION) where something else of the view lies there.
    """
    if alias is not None:
        refuse_overlap(alias.target, (mount.target for mount in view.mounts if mount.target != alias.source))
    shims = [Mount(shim, Path(path)) for tool, shim in view.shims.items() for path in programs.get(tool, ())]
    seen = _visible([*own, *view.mounts, *([alias] if alias is not None else []), *shims])
    hidden = [Path(os.path.realpath(path)) for path in view.hidden]
    seen = [mount for mount in seen if _real(mount) not in hidden]
    binds = [_bind(mount) for mount in seen]
    return [*binds, *_covers(seen, hidden)]


def refuse_overlap(working_dir: Path, targets: Iterable[Path]) -> None:
    """Raise TrialError(CONFIGURATION) when one of the targets is, holds or lies in the place of the workspace."""
    for target in targets:
        if target.is_relative_to(working_dir) or working_dir.is_relative_to(target):
            raise TrialError(
                Cause.CONFIGURATION,
                f"sandbox.docker.working_dir: {working_dir}: the workspace cannot take this place, for {target} is "
                "seen in the sandbox too",
            )


def _visible(mounts: Sequence[Mount]) -> list[Mount]:
    """Those that no later one lies over: the engine mounts what is deeper in the tree last, whatever the order."""
    seen: list[Mount] = []
    for mount in mounts:
        target = PurePosixPath(mount.target)
        seen = [each for each in seen if not PurePosixPath(each.target).is_relative_to(target)]
        seen.append(mount)
    return seen


def _bind(mount: Mount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": os.path.realpath(mount.source),
        "Target": str(mount.target),
        "ReadOnly": not mount.writable,
        "BindOptions": {"Propagation": "rprivate"},
    }


def _real(mount: Mount) -> Path:
    return Path(os.path.realpath(mount.source))


def _covers(seen: Sequence[Mount], hidden: Sequence[Path]) -> list[dict[str, Any]]:
    """What lies over the hidden paths that are inside what is seen."""
    taken = {str(mount.target) for mount in seen}
    covers: dict[str, dict[str, Any]] = {}
    for mount in seen:
        for path in hidden:
            source = _real(mount)
            if path != source and path.is_relative_to(source) and path.exists():
                target = str(mount.target / path.relative_to(source))
                if target not in taken:
                    covers[target] = _cover(path, target)
    return list(covers.values())


def _cover(path: Path, target: str) -> dict[str, Any]:
    if path.is_dir():
        options = {"SizeBytes": _COVER_BYTES, "Mode": 0o755}
        return {"Type": "tmpfs", "Target": target, "TmpfsOptions": options}
    return {"Type": "bind", "Source": os.devnull, "Target": target, "ReadOnly": True}
