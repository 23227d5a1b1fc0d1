"""The Docker daemon and the images that tests run in."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pytest_codereval.sandbox.docker import engine, leftovers
from tests.sandbox.docker import base_image as images


@pytest.fixture(scope="session")
def docker_daemon() -> engine.Daemon:
    """The daemon that answers here; where none can be used, the test skips and says why."""
    found = engine.look()
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture(scope="session")
def docker_client(docker_daemon: engine.Daemon) -> Iterator[Any]:
    """A client of the SDK."""
    import docker

    client = docker.DockerClient(base_url=f"unix://{docker_daemon.socket}", timeout=60)
    yield client
    client.close()


@pytest.fixture(scope="session")
def base_image(docker_client: Any) -> str:
    """The name of an image with bash, coreutils, git, python3 and procps, made of what the host has."""
    return _made(docker_client, images.base_recipe)


@pytest.fixture(scope="session")
def busybox_image(docker_client: Any) -> str:
    """The name of an image with a busybox and its links, and nothing else."""
    return _made(docker_client, images.busybox_recipe)


def _made(client: Any, recipe: Callable[[], images.Recipe]) -> str:
    try:
        return images.ensure(client, recipe())
    except images.CannotBuildError as error:
        pytest.skip(str(error))


def ours(client: Any) -> set[str]:
    """The names of the containers, volumes and networks that this process made and that are still there."""
    asked = {"label": [f"{leftovers.LABEL}=1", f"{leftovers.PID}={os.getpid()}"]}
    containers = client.containers.list(all=True, filters=asked, ignore_removed=True)
    found = [*containers, *client.volumes.list(filters=asked), *client.networks.list(filters=asked)]
    return {item.name for item in found}


@pytest.fixture(scope="module", autouse=True)
def nothing_left() -> Iterator[None]:
    """After each module, no container, volume or network of this process is left."""
    yield
    if isinstance(engine.look(), engine.Daemon):
        import docker

        client = docker.DockerClient(base_url=f"unix://{engine.daemon().socket}", timeout=60)
        try:
            assert ours(client) == set()
        finally:
            client.close()
