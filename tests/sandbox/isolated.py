"""Sandboxes of the drivers that isolate, for tests of other rooms; where one cannot be had, the test skips."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from pytest_codereval.errors import TrialError
from pytest_codereval.sandbox import drivers
from pytest_codereval.sandbox.docker import engine
from pytest_codereval.sandbox.drivers import Order
from pytest_codereval.sandbox.environment import EnvironmentPlan
from pytest_codereval.sandbox.protocol import Sandbox
from pytest_codereval.task.models import SandboxConfig
from tests.sandbox.docker import base_image

ISOLATING = ("bubblewrap", "docker", "busybox")
"""The last is docker with an image of a busybox and nothing else."""


def create(kind: str, *, withhold: tuple[Path, ...] = (), **config: Any) -> Sandbox:
    """A sandbox of one of these kinds, or of `tempdir`; `config` are fields of its configuration."""
    driver = "docker" if kind == "busybox" else kind
    image = image_of(kind) if driver == "docker" else None
    settings = SandboxConfig.model_validate({"driver": driver, **config})
    order = Order(settings, EnvironmentPlan(withhold=withhold), image=image, session="test", trial="test")
    found = drivers.driver(driver).availability(order)
    if not found.usable:
        pytest.skip(f"no {driver}: {found.reason}")
    return drivers.driver(driver).create(order)


@functools.cache
def image_of(kind: str) -> str:
    found = engine.look()
    if isinstance(found, str):
        pytest.skip(found)
    import docker

    client = docker.DockerClient(base_url=f"unix://{found.socket}", timeout=60)
    recipe = base_image.busybox_recipe if kind == "busybox" else base_image.base_recipe
    try:
        return base_image.ensure(client, recipe())
    except (base_image.CannotBuildError, TrialError) as error:
        pytest.skip(str(error))
    finally:
        client.close()
