"""Folders that are to be entered or not, contrary to what pytest would do.

`build` and `dist` are not entered by default although they are ordinary words: one that holds task files is entered for
these, unless it is where a package is built; its other files stay unseen. Run directories hold what agents wrote: they
are never entered.
"""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path

import pytest

from .collection import SUFFIXES, is_claimed
from .options import RUN_DIRECTORY_PATH

ORDINARY_NAMES = ("build", "dist")
_ENTERED = pytest.StashKey[list[Path]]()


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if _is_run_directory(collection_path, config):
        return True
    entered = config.stash.setdefault(_ENTERED, [])
    if any(folder in collection_path.parents for folder in entered):
        return None if collection_path.suffix in SUFFIXES or collection_path.is_dir() else True
    if collection_path.name not in ORDINARY_NAMES or not is_hidden_by_default(collection_path, config):
        return None
    if not collection_path.is_dir() or not _holds_task_files(collection_path, config):
        return None
    entered.append(collection_path)
    return False


def _is_run_directory(path: Path, config: pytest.Config) -> bool:
    if path == config.stash[RUN_DIRECTORY_PATH]:
        return True
    return (path / "trials").is_dir() and (path / "lock").is_file()


def is_hidden_by_default(path: Path, config: pytest.Config) -> bool:
    """Whether only pytest's own list hides the folder, not the repository's settings and not its being a product."""
    patterns = config.getini("norecursedirs")
    built_here = any((path.parent / name).is_file() for name in ("pyproject.toml", "setup.py", "setup.cfg"))
    if built_here or "node_modules" not in patterns:
        return False
    return any(fnmatch.fnmatch(path.name, pattern) for pattern in patterns)


def _holds_task_files(folder: Path, config: pytest.Config) -> bool:
    return any(
        name.endswith(SUFFIXES) and is_claimed(Path(place, name), config)
        for place, _, names in os.walk(folder)
        for name in names
    )
