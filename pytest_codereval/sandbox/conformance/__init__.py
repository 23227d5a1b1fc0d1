"""The contract of drivers as small named checks, for those that come with the package and for those of others.

In a plugin's own tests::

    @pytest.fixture(scope="module")
    def bench():
        with conformance.Bench(MyDriver()) as bench:
            yield bench

    @pytest.mark.parametrize("name", conformance.CHECKS)
    def test_conformance(bench, name):
        if name not in bench.needed:
            pytest.skip(f"only needed from {conformance.NEEDED_FROM[name].label} on")
        bench.run(name)

Each of `CHECKS` can also be called with a function `make` that makes a fresh sandbox: see `registration.Make`.
"""

from __future__ import annotations

from . import executing, files, phases
from .bench import Bench
from .registration import CHECKS, NEEDED_FROM, SHARING, CannotTell, Check, Make

__all__ = ["CHECKS", "NEEDED_FROM", "SHARING", "Bench", "CannotTell", "Check", "Make", "executing", "files", "phases"]
