"""Sandboxes of the driver `docker`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_codereval.sandbox.directory import DirectorySandbox
from pytest_codereval.sandbox.docker.driver import DockerDriver
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Phase, ProcessResult
from pytest_codereval.task.models import SandboxConfig


def create(
    image: str, *, withhold: tuple[Path, ...] = (), hidden: tuple[Path, ...] = (), **config: Any
) -> DirectorySandbox:
    """A sandbox whose processes run in this image; `config` are fields of its configuration."""
    settings = SandboxConfig.model_validate({"driver": "docker", **config})
    plan = EnvironmentPlan(withhold=withhold)
    return DockerDriver().create(Order(settings, plan, hidden=hidden, image=image, session="test", trial="test"))


def sh(sandbox: DirectorySandbox, script: str, phase: Phase = Phase.AGENT, timeout: float = 30) -> ProcessResult:
    """Run shell text."""
    return sandbox.run(["/bin/sh", "-c", script], phase=phase, timeout=timeout)
