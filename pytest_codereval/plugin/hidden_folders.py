"""Folders that pytest does not enter by default although their names are ordinary words: `build` and `dist`.

One that holds task files is entered for these; its other files stay as unseen as they were.
"""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

import pytest

from .collection import SUFFIXES, is_claimed

ORDINARY_NAMES = ("build", "dist")
_ENTERED = pytest.StashKey[list[Path]]()


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    entered = config.stash.setdefault(_ENTERED, [])
    if any(folder in collection_path.parents for folder in entered):
        return None if collection_path.suffix in SUFFIXES or collection_path.is_dir() else True
    if collection_path.name not in ORDINARY_NAMES or not _is_hidden_by_default(collection_path, config):
        return None
    if not collection_path.is_dir() or not _holds_task_files(collection_path, config):
        return None
    entered.append(collection_path)
    return False


def _is_hidden_by_default(path: Path, config: pytest.Config) -> bool:
    """Whether pytest's own list hides the folder; one that the repository's settings hide stays hidden."""
    patterns = config.getini("norecursedirs")
    return "node_modules" in patterns and any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)


def _holds_task_files(folder: Path, config: pytest.Config) -> bool:
    return any(
        name.endswith(SUFFIXES) and is_claimed(Path(place, name), config)
        for place, _, names in os.walk(folder)
        for name in names
    )
