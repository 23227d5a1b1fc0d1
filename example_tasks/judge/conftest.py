"""Tasks whose judge is a model are skipped where there is no key for it."""

import os

import pytest

NEED_A_MODEL = {"apology.yaml", "apology_agent.yaml"}
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


def pytest_collection_modifyitems(items):
    if any(os.environ.get(name) for name in KEYS):
        return
    for item in items:
        if item.path.name in NEED_A_MODEL:
            item.add_marker(pytest.mark.skip(reason=f"a model judges: set {' or '.join(KEYS)}"))
