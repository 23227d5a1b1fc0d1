"""What a trial's sandbox costs, by driver; printed, never asserted: `pytest --benchmark-only tests/benchmarks`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.benchmarks import drivers
from tests.benchmarks.drivers import CannotMeasureError, compared, floor, life, maker

ROUNDS = {"tempdir": 20, "bubblewrap": 20, "docker": 4}


@pytest.mark.parametrize("name", drivers.DRIVERS)
def test_life_of_a_sandbox(benchmark: Any, name: str, capsys: Any) -> None:
    try:
        make = maker(name)
        beside = floor(name, make)
    except CannotMeasureError as error:
        pytest.skip(f"no {name}: {error}")
    steps, base = compared(make, beside, ROUNDS[name])
    benchmark.pedantic(life, (make,), rounds=ROUNDS[name])
    ratios = {step: round(value / base, 2) for step, value in steps.items()}
    benchmark.extra_info.update(floor_ms=round(base * 1e3, 2), **ratios)
    with capsys.disabled():
        told = ", ".join(f"{step} {ratio}" for step, ratio in ratios.items())
        print(f"\n{name}: in floors of {base * 1e3:.1f} ms each: {told}")


@pytest.mark.parametrize("count", drivers.AT_ONCE)
@pytest.mark.parametrize("name", drivers.DRIVERS)
def test_sandboxes_at_the_same_time(benchmark: Any, name: str, count: int) -> None:
    try:
        make = maker(name)
    except CannotMeasureError as error:
        pytest.skip(f"no {name}: {error}")
    benchmark.pedantic(drivers.at_once, (make, count), rounds=1)
