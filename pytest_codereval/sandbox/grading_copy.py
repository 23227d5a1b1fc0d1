"""Puts a sanitised copy of the sealed workspace in its place, for graders to work on."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from .exposure import HostPrograms
from .links import LinkRules, system_links
from .repositories import disarm
from .snapshot import MOST_SKIPPED, Limits, Manifest, snapshot

GRADING_LIMITS = Limits(file_bytes=4 << 30, total_bytes=16 << 30, entries=1_000_000, depth=200)
"""How much of a workspace is graded. What is above counts as absent; one with more in all cannot be graded."""


class Surroundings(Protocol):
    """Where the workspace was worked in; see `protocol.Sandbox`."""

    def holds(self, path: str) -> bool:
        """Whether an absolute path belongs to the system."""

    def host_path_of(self, path: str) -> str:
        """The path on the harness's disk."""


def make_grading_copy(
    workspace: Path, sealed: Path, never: Collection[Path] = (), system: Surroundings | None = None
) -> Manifest:
    """Move the workspace to `sealed` and put a sanitised copy in its place. Raises OSError.

    It is as exact as is harmless: links inside are kept, whole chains of them, and those into the `system`, by default
    this machine, such as a virtual environment has, but none into a place that must `never` be led to. Repositories of
    git lose what would run programs or lead elsewhere; `skipped` tells that, too.
    """
    workspace.rename(sealed)
    return copy_for_grading(sealed, workspace, workspace, never, system)


def copy_for_grading(
    source: Path,
    target: Path,
    known_as: Path,
    never: Collection[Path] = (),
    system: Surroundings | None = None,
) -> Manifest:
    """As `make_grading_copy`, from a tree that is `known_as` this path and stays where it is."""
    around = system or HostPrograms()
    outside = system_links([*never, target.parent, known_as.parent], around.holds)
    rules = LinkRules(outside=outside, missing=True, path_of=around.host_path_of)
    manifest = snapshot(source, target, GRADING_LIMITS, exact=True, rules=rules, known_as=known_as)
    done = disarm(target, manifest, known_as)
    return dataclasses.replace(manifest, skipped=(*done, *manifest.skipped)[:MOST_SKIPPED])
