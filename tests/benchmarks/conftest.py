"""Benchmarks run when they are asked for: `pytest tests/benchmarks --benchmark-only -s`."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("benchmark_only", False):
        for item in items:
            if HERE in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="benchmarks run with --benchmark-only"))
