"""Sandboxes for tests that make their own; without pydantic, as some run where it is not installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.tempdir import TempdirDriver

if TYPE_CHECKING:
    from pytest_codereval.task.models import SandboxConfig


def create(
    config: SandboxConfig | None = None, *, environments: EnvironmentPlan, root_parent: Path | None = None
) -> DirectorySandbox:
    """A sandbox of the driver `tempdir`."""
    return TempdirDriver().create(Order(config or _plain_config(), environments, root_parent=root_parent))


def _plain_config() -> Any:
    limits = {"timeout": 300, "max_memory_mb": None, "max_cpus": None, "max_pids": None, "max_disk_mb": None}
    fields = {"driver": "tempdir", "env": {}, "env_passthrough": (), "ignore_patterns": (), "network": None}
    docker = SimpleNamespace(model_fields_set=frozenset())
    return cast("Any", SimpleNamespace(**fields, docker=docker, limits=SimpleNamespace(**limits)))
