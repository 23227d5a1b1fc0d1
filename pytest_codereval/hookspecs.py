"""The extension points, in pytest's own way: implement them in a conftest.py or in a plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest


@pytest.hookspec
def pytest_codereval_trial_finished(config: pytest.Config, summary: Mapping[str, Any], folder: Path) -> None:
    """Called in the process that ran a trial, once its record is written.

    :param summary: status, message, score, criteria, tokens and cost of the trial as plain data.
    :param folder: the trial's folder in the run directory, with `record.json` and the sealed `workspace`.
    """
