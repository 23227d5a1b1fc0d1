"""Which drivers can be attacked on this machine, and in which image."""

from __future__ import annotations

import functools

from pytest_codereval.sandbox import drivers


@functools.cache
def image_for(driver: str) -> str | None:
    """The image that containers are made of, which the host's own packages fill."""
    if driver != "docker":
        return None
    import docker

    from tests.sandbox.docker import base_image

    client = docker.from_env(timeout=120)
    try:
        return base_image.ensure(client, base_image.base_recipe())
    finally:
        client.close()


@functools.cache
def why_not(driver: str) -> str:
    """Why a driver cannot be attacked here, "" when it can."""
    if driver == "open":
        return ""
    try:
        there = drivers.driver(driver).availability()
        if there.usable:
            image_for(driver)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if there.usable else there.reason
