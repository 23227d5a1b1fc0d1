"""Where the agent works: the `sandbox` block of a task."""

from __future__ import annotations

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

from . import driver_names
from .base import Finding, StrictModel, WholeModel, problem, raise_findings
from .docker_models import DockerBuild, DockerConfig, ExtraMount, mount_error
from .fields import (
    VARIABLE_NAME,
    HostPath,
    NonBlank,
    OutputText,
    PositiveInt,
    PositiveNumber,
    WorkspaceDirectory,
    WorkspacePath,
    path_error,
)
from .layering.merging import FREE, Merging
from .nearest import hint
from .network_models import NetworkSetting
from .reply_models import CliResponse, CopyEffect, RecordedTool, ReplyModel, WriteEffect

__all__ = [
    "CliResponse",
    "CopyEffect",
    "DockerBuild",
    "DockerConfig",
    "Driver",
    "ExtraMount",
    "NodeConfig",
    "PythonConfig",
    "RecordedTool",
    "ReplyModel",
    "RepoSource",
    "ResourceLimits",
    "SandboxConfig",
    "StarterFile",
    "StarterFiles",
    "TemplateDir",
    "TemplateSource",
    "WriteEffect",
    "mount_error",
    "pick",
]


def _known_driver(name: str) -> str:
    if name not in driver_names.names():
        known = driver_names.names()
        raise problem(f"there is no driver {name[:80]!r}{hint(name, known)} (expected one of {', '.join(known)})")
    return name


Driver = Annotated[str, AfterValidator(_known_driver)]
OWNED_VARIABLES = frozenset({"PATH", "HOME", "TMPDIR", "TASK_DIR", "REFERENCE_DIR"})


def _ignore_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if not pattern.removeprefix("!").strip():
            raise problem(f"{pattern!r} names nothing: expected a pattern, or '!' and a pattern to un-ignore")
    return patterns


IgnorePatterns = Annotated[tuple[str, ...], AfterValidator(_ignore_patterns)]


class TemplateDir(WholeModel):
    """The contents of a directory beside the task file, copied to `mount_point`."""

    type: Literal["template_dir"] = "template_dir"
    path: HostPath
    mount_point: WorkspaceDirectory = "."
    include_patterns: tuple[str, ...] = ()

    @field_validator("include_patterns")
    @classmethod
    def _inside(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if error := path_error(pattern):
                raise problem(f"{pattern!r}: {error.replace('workspace', 'template directory')}")
        return patterns


class StarterFile(WholeModel):
    """One file that the workspace starts with."""

    path: WorkspacePath
    content: str


class StarterFiles(WholeModel):
    """Files written in the task itself."""

    type: Literal["starter_files"] = "starter_files"
    files: tuple[StarterFile, ...]


class RepoSource(WholeModel):
    """A Git repository in `repo` of the workspace: one commit without remotes, or with its `history`.

    `commit` is a commit, branch or tag, by default what HEAD of the repository names.
    """

    type: Literal["repo"] = "repo"
    url: HostPath
    commit: NonBlank | None = None
    history: bool = False


TEMPLATE_SOURCES: Mapping[str, type[StrictModel]] = {
    "template_dir": TemplateDir,
    "starter_files": StarterFiles,
    "repo": RepoSource,
}


def parse_template_source(value: Any, info: ValidationInfo) -> StrictModel:
    """Return the template source that `type` names."""
    if isinstance(value, TemplateDir | StarterFiles | RepoSource):
        return value
    return pick(value, TEMPLATE_SOURCES, "template source").model_validate(value, context=info.context)


def pick(value: Any, models: Mapping[str, type[StrictModel]], what: str) -> type[StrictModel]:
    """Return the model that the key `type` of a mapping names. Raises one problem about that mapping."""
    if not isinstance(value, Mapping):
        raise problem(f"expected a mapping that describes a {what}")
    if "type" not in value:
        raise problem(f"the key 'type' is missing; expected one of {', '.join(models)}")
    kind = value["type"]
    if not isinstance(kind, str) or kind not in models:
        shown = kind[:80] if isinstance(kind, str) else kind
        raise problem(
            f"no {what} has the type {shown!r}{hint(str(kind), models)} (expected one of {', '.join(models)})"
        )
    return models[kind]


TemplateSource = Annotated[
    SerializeAsAny[StrictModel],
    PlainValidator(parse_template_source, json_schema_input_type=TemplateDir | StarterFiles | RepoSource),
]


class ResourceLimits(StrictModel):
    """Limits of the sandbox. `timeout` is in seconds; memory and disk in megabytes."""

    merging = Merging(replace=("timeout", "max_memory_mb", "max_cpus", "max_pids", "max_disk_mb"))

    timeout: PositiveInt = 300
    max_memory_mb: PositiveInt | None = None
    max_cpus: PositiveNumber | None = None
    max_pids: PositiveInt | None = None
    max_disk_mb: PositiveInt | None = None


class PythonConfig(StrictModel):
    """A virtual environment with these packages."""

    merging = Merging(replace=("env_packages",))

    env_packages: tuple[str, ...] = ()


class NodeConfig(StrictModel):
    """npm packages that are installed in the workspace."""

    merging = Merging(replace=("env_packages",))

    env_packages: tuple[str, ...] = ()


class SandboxConfig(StrictModel):
    """The place where the agent works, and what lies there when it starts."""

    merging = Merging(
        replace=("driver", "network", "mock_path_dirs", "record_cli", "ignore_patterns", "env_passthrough"),
        deep={
            "docker": DockerConfig.merging,
            "python": PythonConfig.merging,
            "node": NodeConfig.merging,
            "limits": ResourceLimits.merging,
            "env": FREE,
        },
        overlay=("template_sources",),
    )

    driver: Driver = "tempdir"
    network: NetworkSetting | None = None
    docker: DockerConfig = Field(default_factory=DockerConfig)
    python: PythonConfig | None = Field(default_factory=PythonConfig)
    node: NodeConfig | None = None
    limits: ResourceLimits = Field(default_factory=ResourceLimits)
    template_sources: tuple[TemplateSource, ...] | None = None
    mock_path_dirs: tuple[WorkspaceDirectory, ...] | None = None
    record_cli: tuple[RecordedTool, ...] | None = None
    ignore_patterns: IgnorePatterns = ()
    env: dict[str, OutputText] = Field(default_factory=dict)
    env_passthrough: tuple[str, ...] = ()

    @field_validator("env")
    @classmethod
    def _usable_variables(cls, env: dict[str, str]) -> dict[str, str]:
        for name in env:
            if not VARIABLE_NAME.fullmatch(name):
                raise problem(f"{name!r} is no name of an environment variable")
            if name in OWNED_VARIABLES:
                raise problem(f"{name} is set by the harness")
        return env

    @field_validator("env_passthrough")
    @classmethod
    def _usable_globs(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not name.strip() or "=" in name or "\0" in name:
                raise problem(f"{name!r}: expected the name of an environment variable, or a glob")
        return names

    @model_validator(mode="after")
    def _check(self) -> SandboxConfig:
        raise_findings("SandboxConfig", [*self._source_findings(), *self._tool_findings()])
        return self

    def _source_findings(self) -> list[Finding]:
        return [
            Finding(("template_sources", index), "a repo source must be the first, and there can be only one")
            for index, source in enumerate(self.template_sources or ())
            if index > 0 and isinstance(source, RepoSource)
        ]

    def _tool_findings(self) -> list[Finding]:
        found = []
        first: dict[str, str] = {}
        for index, entry in enumerate(self.record_cli or ()):
            folded = entry.tool.casefold()
            if folded in first:
                other = first[folded]
                why = "recorded twice" if other == entry.tool else f"the same file as {other!r} where case is folded"
                found.append(Finding(("record_cli", index, "tool"), f"{entry.tool!r} is {why}"))
            first.setdefault(folded, entry.tool)
        return found
