"""Whole sessions with conversations run in a repository of their own."""

from __future__ import annotations

import pytest

from ..plugin.conftest import Repo


@pytest.fixture
def repo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """A repository with a folder `tasks`, and a key for the simulated user."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest -p no:benchmark -p no:anyio")
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "fake-key-of-the-simulated-user")
    return Repo(pytester)
