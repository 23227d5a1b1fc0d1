"""The repository of tests/plugin, and reading two runs side by side."""

from __future__ import annotations

from ..plugin.conftest import repo as repo
