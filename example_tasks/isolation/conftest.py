"""Skips what the driver `tempdir` cannot do on this kernel."""

import pytest


def pytest_collection_modifyitems(config, items):
    from pytest_codereval.sandbox.landlock import TCP, abi

    driver = config.getoption("codereval_driver") or config.getini("codereval_driver") or "tempdir"
    if driver == "tempdir" and abi() < TCP:
        for item in items:
            if item.name == "no-network":
                item.add_marker(
                    pytest.mark.skip(reason=f"tempdir needs Landlock {TCP} (Linux 6.7) to bound the network")
                )
