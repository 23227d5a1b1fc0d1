"""Settings of containers: their image, how it is built, what of the host they see."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PlainValidator,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)

from .base import Finding, StrictModel, WholeModel, problem, raise_findings
from .fields import HostPath
from .layering.merging import FREE, Merging
from .network_models import NetworkSetting

_RESERVED_WORKING_DIRS = ("/", "/work")
_SYSTEM_FOLDERS = frozenset(
    "/bin /boot /dev /etc /home /lib /lib32 /lib64 /libx32 /proc /run /sbin /sys /tmp /usr /usr/bin /usr/lib "
    "/usr/local /usr/local/bin /usr/sbin /usr/share /var /var/tmp".split()
)
"""Folders of an image that nothing can be laid over without breaking it or the sandbox."""

_KERNEL_FOLDERS = ("/proc/", "/sys/", "/dev/")
_EXPANDED = ("$", "~")


class DockerBuild(StrictModel):
    """How the image is built from `dockerfile_path`."""

    merging = Merging(replace=("buildkit", "secrets", "extra_args"), deep={"args": FREE})

    buildkit: bool | None = None
    args: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    extra_args: tuple[str, ...] = ()


class ExtraMount(WholeModel):
    """A file or folder of the host that a sandbox sees at `target`.

    With `mode: rw` it is a throw-away copy, with `shared: true` the host's own.
    """

    source: HostPath
    target: str
    mode: Literal["ro", "rw"] = "ro"
    shared: bool = False

    @field_validator("target")
    @classmethod
    def _usable_target(cls, target: str) -> str:
        if error := target_error(target):
            raise problem(error)
        return target

    @model_validator(mode="after")
    def _check(self) -> ExtraMount:
        if self.shared and self.mode == "ro":
            raise_findings("ExtraMount", [Finding(("shared",), "only a mount with mode: rw can be shared")])
        return self


def target_error(target: str) -> str | None:
    """Return why nothing can be mounted at `target`, or None. What is to be expanded is checked afterwards."""
    if not target.strip() or "\0" in target:
        return "expected an absolute path"
    if target.startswith(_EXPANDED):
        return None
    if not target.startswith("/"):
        return "expected an absolute destination"
    if ".." in target.split("/"):
        return "expected an absolute destination without '..'"
    normal = posixpath.normpath(f"/{target.lstrip('/')}")
    if normal in _RESERVED_WORKING_DIRS or normal.startswith("/work/") or _is_of_system(normal):
        return f"{normal} is a folder of the system or of the harness, which nothing can be mounted over"
    return None


def _is_of_system(normal: str) -> bool:
    return normal in _SYSTEM_FOLDERS or normal.startswith(_KERNEL_FOLDERS)


def parse_mount(text: str) -> ExtraMount:
    """Return what `source:destination[:ro|rw]` means. A drive letter is part of the source. Raises ValueError."""
    if error := mount_error(text):
        raise ValueError(error)
    source, target, *mode = _parts(text)
    return ExtraMount.model_validate({"source": source, "target": target, "mode": mode[0] if mode else "ro"})


def mount_error(mount: str) -> str | None:
    """Return what is wrong with `source:destination[:ro|rw]`, or None. A drive letter is part of the source."""
    parts = _parts(mount)
    if len(parts) not in (2, 3) or not parts[0].strip() or not parts[1].strip():
        return "expected source:destination, source:destination:ro or source:destination:rw"
    if len(parts) == 3 and parts[2] not in ("ro", "rw"):
        return f"expected the mode ro or rw, found {parts[2]!r}"
    if "\0" in mount:
        return "the text has a NUL character"
    return target_error(parts[1])


def _parts(mount: str) -> list[str]:
    drive, rest = (mount[:2], mount[2:]) if re.match(r"[A-Za-z]:[\\/]", mount) else ("", mount)
    first, *others = rest.split(":")
    return [drive + first, *others]


def _mount(value: Any, info: ValidationInfo) -> str | ExtraMount:
    if isinstance(value, ExtraMount):
        return value
    if isinstance(value, Mapping):
        return ExtraMount.model_validate(value, context=info.context)
    if not isinstance(value, str):
        raise problem("expected source:destination[:ro|rw], or a mapping with source, target, mode and shared")
    if error := mount_error(value):
        raise problem(f"{value!r}: {error}")
    return value


MountSetting = Annotated[
    str | SerializeAsAny[ExtraMount], PlainValidator(_mount, json_schema_input_type=str | ExtraMount)
]
"""`source:destination[:ro|rw]`, or the same as a mapping."""


def _variable_names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not name.strip() or "=" in name or "\0" in name:
            raise problem(f"{name!r}: expected the name of an environment variable, or a glob")
    return names


VariableNames = Annotated[tuple[str, ...], AfterValidator(_variable_names)]


class DockerConfig(StrictModel):
    """Settings of the docker driver. `env_passthrough: null` is what the session lets through."""

    merging = Merging(
        replace=("image", "dockerfile_path", "network", "working_dir", "env_passthrough", "extra_mounts"),
        deep={"build": DockerBuild.merging},
        append=("env_passthrough_extra",),
    )

    image: str | None = None
    dockerfile_path: HostPath | None = None
    build: DockerBuild = Field(default_factory=DockerBuild)
    network: NetworkSetting = "bridge"
    working_dir: str | None = None
    env_passthrough: VariableNames | None = None
    env_passthrough_extra: VariableNames = ()
    extra_mounts: tuple[MountSetting, ...] = ()

    @field_validator("working_dir")
    @classmethod
    def _usable_working_dir(cls, path: str | None) -> str | None:
        if path is not None and path != "auto" and (error := working_dir_error(path)):
            raise problem(error)
        return path

    @property
    def mounts(self) -> tuple[ExtraMount, ...]:
        """`extra_mounts` in one form."""
        return tuple(parse_mount(mount) if isinstance(mount, str) else mount for mount in self.extra_mounts)

    @property
    def passed_names(self) -> tuple[str, ...]:
        """The variables of the host, names or globs, that are let through beside the session's; never HOME and PATH."""
        names = (*(self.env_passthrough or ()), *self.env_passthrough_extra)
        return tuple(name for name in dict.fromkeys(names) if name not in ("HOME", "PATH"))


def working_dir_error(path: str) -> str | None:
    """Return why the workspace cannot lie at `path` in an image, or None."""
    if not path.startswith("/") or ".." in path.split("/"):
        return "expected an absolute path without '..', or 'auto'"
    normal = "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
    if normal in _RESERVED_WORKING_DIRS or normal.startswith("/work/"):
        return "'/', '/work' and what lies below '/work' are taken by the harness"
    if _is_of_system(normal):
        return f"{normal} is a folder of the system, which the workspace cannot take the place of"
    return None
