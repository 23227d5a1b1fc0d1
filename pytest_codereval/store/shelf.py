"""The judgements of one run that models made, by content, so that none is paid for twice."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import clock
from ..errors import CoderEvalError
from .locking import release, try_lock
from .run_directory import write_json

FOLDER = "judgements"
PATIENCE = 600.0
"""Seconds to wait while another worker makes the same judgement; then it is made here as well."""


class Shelf:
    """A folder that all workers share. Keys are SHA-256 in hexadecimal."""

    def __init__(self, shared: Path, patience: float = PATIENCE) -> None:
        self._folder = shared / FOLDER
        self._patience = patience

    @contextlib.contextmanager
    def held(self, key: str) -> Iterator[KeptFile]:
        """The place of one judgement, which no other process or thread has meanwhile."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._folder / f"{key}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise CoderEvalError(f"{self._folder} cannot be used: {error.strerror}") from None
        try:
            self._wait_for(lock)
            yield KeptFile(self._folder / f"{key}.json")
        finally:
            release(lock)

    def _wait_for(self, lock: int) -> None:
        end, pause = clock.monotonic() + self._patience, 0.002
        while not try_lock(lock) and clock.monotonic() < end:
            time.sleep(pause)
            pause = min(pause * 1.5, 0.1)


class KeptFile:
    """One judgement as a file of JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any] | None:
        """What is kept, None when nothing is or it cannot be read."""
        try:
            value = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    def write(self, judged: dict[str, Any]) -> None:
        """Keep it, whole or not at all. Raises CoderEvalError."""
        try:
            write_json(self._path, judged)
        except OSError as error:
            raise CoderEvalError(f"{self._path} cannot be written: {error.strerror}") from None
