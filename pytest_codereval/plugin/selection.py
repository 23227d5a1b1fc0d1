"""Selection by tags on every version and setting of pytest."""

from __future__ import annotations

import pytest

from ..errors import CoderEvalError
from .collection import trial_of


def pytest_configure(config: pytest.Config) -> None:
    expression = config.getoption("codereval_tags")
    if expression is None:
        return
    from ..task.tag_expression import compile_tags

    try:
        compile_tags(expression)
    except CoderEvalError as error:
        raise pytest.UsageError(f"--codereval-tags: {error}") from None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    expression = config.getoption("codereval_tags")
    if expression is None:
        return
    from ..task.tag_expression import compile_tags

    fits = compile_tags(expression)
    chosen = [item for item in items if fits(_tags(item))]
    if len(chosen) < len(items):
        kept = set(map(id, chosen))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = chosen


def _tags(item: pytest.Item) -> frozenset[str]:
    """The tags of a task's item; the names of its marks for every other item."""
    trial = trial_of(item)
    return frozenset(trial.task.tags if trial is not None else (mark.name for mark in item.iter_markers()))
