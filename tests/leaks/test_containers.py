"""Grading material that was built into an image, seen before an agent starts in it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import Any

import pytest

from ..plugin.conftest import PASS, Repo
from ..sandbox.docker.conftest import busybox_image, docker_client, docker_daemon

__all__ = ["busybox_image", "docker_client", "docker_daemon"]

CANARY = "codereval-canary-" + "4" * 32


@pytest.fixture
def leaking_image(docker_client: Any, busybox_image: str) -> Iterator[str]:
    """The small image with a file in it that holds a canary."""
    name = f"codereval-test-leaking-{os.getpid()}"
    text = f"FROM {busybox_image}\nRUN mkdir -p /opt/suite && echo '# {CANARY}' >/opt/suite/check.py\n"
    docker_client.images.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True, forcerm=True)
    yield name
    docker_client.images.remove(name, force=True)


def test_an_image_with_grading_material_is_refused(
    pytester: pytest.Pytester, busybox_image: str, leaking_image: str
) -> None:
    repo = Repo(pytester)
    for name, image in (("clean", busybox_image), ("leaking", leaking_image)):
        sandbox = {"driver": "docker", "docker": {"image": image, "network": "none"}}
        step = {"write": {"path": "a.txt", "content": "hello"}}
        repo.script(name, step, sandbox=sandbox, success_criteria=[{**PASS, "path": "a.txt"}])
    repo.run()
    clean, leaking = repo.record("clean"), repo.record("leaking")
    assert (clean["status"], clean["leaks"]["state"]) == ("passed", "clean")
    assert (leaking["status"], leaking["cause"]) == ("error", "configuration")
    assert f"image {leaking_image}: /opt/suite/check.py" in leaking["message"]
