"""The driver `docker` keeps the contract of all drivers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_codereval.sandbox import conformance, drivers
from tests.sandbox.test_conformance import check_contract


@pytest.fixture(scope="module")
def bench(base_image: str) -> Iterator[conformance.Bench]:
    with conformance.Bench(drivers.driver("docker"), base_image) as bench:
        yield bench


@pytest.mark.parametrize("name", conformance.CHECKS)
def test_docker_keeps_the_contract(bench: conformance.Bench, name: str) -> None:
    check_contract(bench, name)
