"""Which ids a task and a row of its dataset may have. An id becomes part of a node id and of file names."""

from __future__ import annotations

import re

ROW_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_TASK_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_MODULE_NAMES = frozenset(
    {
        *("setup_module", "teardown_module", "setup_function", "teardown_function"),
        *("setUpModule", "tearDownModule", "setup", "teardown", "pytestmark"),
    }
)


def task_id_error(task_id: str) -> str | None:
    """Return why `task_id` cannot be one, or None when it can."""
    if not _TASK_ID.fullmatch(task_id):
        return "expected at most 200 of the characters A-Z a-z 0-9 . _ - and a letter or digit first"
    if task_id in _MODULE_NAMES or task_id.startswith("pytest_"):
        return "this name means something in a Python test module; choose another"
    return None
