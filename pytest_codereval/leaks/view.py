"""What the agent is given, looked through before it starts: grading material there is a mistake of the author's."""

from __future__ import annotations

import dataclasses
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO

from ..errors import Cause, TrialError
from .needles import Kind, Needles
from .places import PlaceFinder, usable_places
from .reading import CHUNK, Budget, files_below, opened, pieces
from .tokens import CanaryReader, TokenFinder, is_own, shown

LARGEST_IN_IMAGE = 10_000_000
"""Bytes of the largest file of an image that is looked at."""


@dataclasses.dataclass(frozen=True)
class Tree:
    """A file or folder that the agent sees. Files of the workspace were put there on purpose."""

    name: str
    path: Path
    is_workspace: bool = False


@dataclasses.dataclass(frozen=True)
class Index:
    """What lies in an image: the path of a file by the SHA-256 of its content, and by each canary in it.

    Of several files one is named.
    """

    name: str
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    canaries: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Given:
    """What the agent was given, as far as needles are concerned: `tokens`, contents by SHA-256, names of `places`.

    `workspace` has the size and SHA-256 of each of its files by relative path. `warnings` are for the author. `short`
    says what could not be looked at.
    """

    tokens: frozenset[str] = frozenset()
    contents: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()
    workspace: Mapping[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    short: tuple[str, ...] = ()


def look(
    needles: Needles,
    trees: Iterable[Tree],
    indexes: Iterable[Index] = (),
    *,
    allowed: Iterable[Path] = (),
    budget: Budget | None = None,
) -> Given:
    """Look through all of it, within `budget`. Paths below `allowed` may be named.

    Raises TrialError(CONFIGURATION) for the first canary of `fresh_canary`, task file, dataset, grader or whole
    reference that is found, naming the file and what to do. A grader that lies in the workspace is one that the author
    has put there.
    """
    search = _Search(needles, budget or Budget(), tuple(allowed))
    for tree in trees:
        search.tree(tree)
    for index in indexes:
        search.index(index)
    search.refuse_reference()
    return search.given()


class _Search:
    """Goes through trees and indexes, and collects what was given."""

    def __init__(self, needles: Needles, budget: Budget, allowed: tuple[Path, ...]) -> None:
        self._needles = needles
        self._budget = budget
        self._finder = TokenFinder(needles.tokens)
        self._places = PlaceFinder(usable_places(needles.places, allowed), allowed)
        self._tokens: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._contents: dict[str, str] = {}
        self._workspace: dict[str, tuple[int, str]] = {}

    def tree(self, tree: Tree) -> None:
        top = os.path.realpath(tree.path)
        found: Iterable[str] = (entry.path for entry in files_below(top)) if Path(top).is_dir() else (top,)
        for path in found:
            inside = path[len(top) :].lstrip("/") or tree.path.name
            if (facts := self._read(path, f"{tree.name}: {inside}")) is None:
                continue
            if tree.is_workspace:
                self._workspace[inside] = facts
            self._note_content(facts[1], f"{tree.name}: {inside}", tree.is_workspace)

    def _read(self, path: str, where: str) -> tuple[int, str] | None:
        """Size and SHA-256 of a file, once its canaries are known to be none."""
        if (file := opened(path, self._budget)) is None:
            return None
        descriptor, found = file
        canaries, total = CanaryReader(), hashlib.sha256()
        self._finder.restart()
        self._places.restart()
        try:
            for piece in pieces(descriptor, self._budget.largest):
                total.update(piece)
                canaries.feed(piece)
                self._finder.feed(piece)
                self._places.feed(piece)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        for token in sorted(canaries.finish() | self._finder.found):
            self._note_token(token, where)
        for name in self._places.finish():
            self._named.setdefault(name, where)
        return found.st_size, total.hexdigest()

    def _note_token(self, token: str, where: str) -> None:
        if is_own(token):
            what = self._needles.tokens.get(token, "grading material")
            raise _mistake(where, f"the canary {shown(token)} of {what} stands in it")
        self._tokens.setdefault(token, where)

    def _note_content(self, sha256: str, where: str, in_workspace: bool) -> None:
        self._contents.setdefault(sha256, where)
        file = self._needles.files.get(sha256)
        if file is None or not file.kind.is_telling or (in_workspace and file.kind is Kind.GRADER):
            return
        raise _mistake(where, f"it is the same as the {file}")

    def index(self, index: Index) -> None:
        for token, path in index.canaries.items():
            if is_own(token) or token in self._needles.tokens:
                self._note_token(token, f"{index.name}: {path}")
        for sha256 in self._needles.files.keys() | self._needles.reference:
            if (there := index.files.get(sha256)) is not None:
                self._note_content(sha256, f"{index.name}: {there}", False)

    def refuse_reference(self) -> None:
        """A part of the reference may be what the agent starts with; all of it is the answer."""
        reference = self._needles.reference
        large = [sha256 for sha256 in reference if sha256 in self._needles.files]
        if large and all(sha256 in self._contents for sha256 in reference):
            raise _mistake(self._contents[large[0]], f"all of the reference is there; this is {self._file(large[0])}")

    def _file(self, sha256: str) -> str:
        return f"its {self._needles.files[sha256].path.name}"

    def given(self) -> Given:
        known = {token: where for token, where in self._tokens.items() if token in self._needles.tokens}
        warnings = [f"{shown(token)} shows nothing: the agent was given it ({where})" for token, where in known.items()]
        warnings += [f"the path of the {name} is told to the agent ({where})" for name, where in self._named.items()]
        short = ["not all of what the agent was given was looked at: it is too much"] if self._budget.short else []
        return Given(
            frozenset(self._tokens),
            frozenset(self._contents),
            frozenset(self._named),
            self._workspace,
            tuple(warnings),
            tuple(short),
        )


def _mistake(where: str, what: str) -> TrialError:
    return TrialError(
        Cause.CONFIGURATION,
        f"the agent would be given grading material ({where}): {what}. Take it out of the template, pre_run, plugin, "
        "mount or image that brings it, or, if the agent may see it, out of the task's grading material.",
    )


def index_of_image(
    image: str, folder: Path, files: Callable[[], Iterable[tuple[str, int, IO[bytes]]]], name: str = ""
) -> Index:
    """The index of an image, which is read once.

    `image` is its id, `folder` where indexes are kept. `files` gives path, size in bytes and
    content of each regular file, each good until the next is asked for. Raises OSError, and what `files` raises.
    """
    key = hashlib.sha256(image.encode()).hexdigest()[:32]
    path = folder / f"image-{key}.json"
    with open(folder / f"image-{key}.lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            partial = path.with_suffix(".partial")
            partial.write_text(json.dumps(_indexed(files())), encoding="ascii")
            partial.replace(path)
    return _kept_index(path, f"image {name or image}")


_indexes: dict[Path, Index] = {}


def _kept_index(path: Path, name: str) -> Index:
    if path not in _indexes:
        content = json.loads(path.read_text(encoding="ascii"))
        _indexes[path] = Index(name, content["files"], content["canaries"])
    return _indexes[path]


def _indexed(files: Iterable[tuple[str, int, IO[bytes]]]) -> dict[str, object]:
    by_digest: dict[str, str] = {}
    by_canary: dict[str, str] = {}
    for path, size, content in files:
        if size > LARGEST_IN_IMAGE:
            continue
        reader, total = CanaryReader(), hashlib.sha256()
        while piece := content.read(CHUNK):
            total.update(piece)
            reader.feed(piece)
        by_digest.setdefault(total.hexdigest(), path)
        for token in reader.finish():
            by_canary.setdefault(token, path)
    return {"files": by_digest, "canaries": by_canary}
