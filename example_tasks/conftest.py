"""The example tasks use pytest as any suite does: this file marks one of them as an expected failure."""

import pytest

EXPECTED_FAILURES = {"claims-without-doing": "the agent only claims to have deployed"}


def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in EXPECTED_FAILURES:
            item.add_marker(pytest.mark.xfail(reason=EXPECTED_FAILURES[item.name], strict=True))
