"""The stored workspace of a trial, put into a fresh sandbox, and what of it the record does not hold."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..errors import Cause, JudgingError, TrialError
from ..sandbox.grading_copy import GRADING_LIMITS
from ..sandbox.links import LinkRules
from ..sandbox.snapshot import MOST_SKIPPED, Manifest, snapshot
from ..sandbox.workspace import DEFAULT_READ_LIMIT, Workspace

_LINK = "link to "
_SECRET_NAME = "a secret in its name"
_NEVER_GRADED = ("ignored", "fifo", "socket", "character device", "block device", "not a file", "gone", "a mount")
"""Why entries are left out that graders do not get either."""


LARGEST_SEARCHED = 1 << 20
MOST_SEARCHED = 32 << 20
"""Bytes of one file and of all in which the path of the workspace is looked for."""


@dataclasses.dataclass(frozen=True)
class Gap:
    """Something of the workspace that is not in the record as the agent left it.

    `path` is relative. What lies there is missing or, with `content`, differs; with `names` it is what else lies in the
    folder `path` that is not known.
    """

    path: str
    reason: str
    content: bool = False
    names: bool = False

    def __str__(self) -> str:
        return f"{self.path or '.'}: {self.reason}"


def gaps_of(manifest: Manifest) -> tuple[Gap, ...]:
    """What criteria could see when the trial ran and cannot see now."""
    found = [Gap(file.path, "secrets are left out of it", content=True) for file in manifest.files if file.redacted]
    for skipped in manifest.skipped:
        if skipped.reason == _SECRET_NAME:
            found.append(Gap(posixpath.dirname(skipped.path), "a file with a secret in its name", names=True))
        elif skipped.path != "." and not skipped.reason.startswith(_LINK) and skipped.reason not in _NEVER_GRADED:
            found.append(Gap(skipped.path, skipped.reason))
    if manifest.truncated or len(manifest.skipped) >= MOST_SKIPPED:
        found.append(Gap("", "the stored workspace is not all of it", names=True))
    return tuple(found)


def restore(stored: Path, manifest: Manifest, target: Path, known_as: str) -> None:
    """Put the stored workspace into the empty directory `target` as the agent left it. Nothing outside is read.

    `known_as` was its path. Raises TrialError(EVIDENCE_LOST) when the stored copy is not what the manifest says.
    """
    if any(each.path == "." for each in manifest.skipped):
        target.rmdir()
        return
    if stored.is_symlink() or not stored.is_dir():
        raise TrialError(Cause.EVIDENCE_LOST, f"there is no stored workspace {stored}")
    copied = snapshot(stored, target, GRADING_LIMITS, exact=True, rules=LinkRules(missing=True))
    recorded = {file.path: file for file in manifest.files}
    there = {file.path for file in copied.files}
    whole = [file for file in manifest.files if not file.redacted and file.path in there]
    differing = {file.path for file in whole if _digest(target / file.path) != file.sha256}
    if changed := sorted(differing | (recorded.keys() ^ there)):
        raise TrialError(Cause.EVIDENCE_LOST, f"{stored}: not as its record says: {', '.join(changed[:5])}")
    for name in there:
        (target / name).chmod(recorded[name].mode & 0o777 | 0o400)
    _restore_links(manifest, target, known_as)
    _restore_folders(manifest, target)


def files_naming(manifest: Manifest, stored: Path, known_as: str) -> list[str]:
    """Stored files that name the path which the workspace had, and has not any more; as far as is looked."""
    found, left = [], MOST_SEARCHED
    wanted = os.fsencode(known_as)
    for file in manifest.files if known_as else ():
        if file.size > LARGEST_SEARCHED or file.size > left or file.path.startswith(".git/"):
            continue
        left -= file.size
        place = stored / file.path
        if not place.is_symlink() and place.is_file() and wanted in place.read_bytes():
            found.append(file.path)
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _restore_links(manifest: Manifest, target: Path, known_as: str) -> None:
    """The links that the stored copy lacks, for they led out of it, and those of which it says something else.

    What they may lead to is decided for grading.
    """
    left_out = {
        each.path: each.reason.removeprefix(_LINK) for each in manifest.skipped if each.reason.startswith(_LINK)
    }
    for path, text in {**left_out, **manifest.rewritten}.items():
        place = _place(target, path)
        if place is None or (os.path.lexists(place) and not (path in manifest.rewritten and place.is_symlink())):
            continue
        if known_as and (text == known_as or text.startswith(f"{known_as}/")):
            text = f"{target}{text[len(known_as) :]}"
        place.unlink(missing_ok=True)
        place.symlink_to(text)


def _restore_folders(manifest: Manifest, target: Path) -> None:
    for path, mode in manifest.folders.items():
        place = _place(target, path)
        if place is not None and place.is_dir() and not place.is_symlink():
            place.chmod(mode & 0o777 | 0o700)


def _place(target: Path, path: str) -> Path | None:
    """The place of a relative path in `target`, None when it leads out of it or through a link."""
    place = target / path
    if (
        path.startswith("/")
        or ".." in path.split("/")
        or os.path.realpath(place.parent) != os.path.normpath(place.parent)
    ):
        return None
    return place


class StoredFiles(Workspace):
    """A stored workspace. To look at what the record does not hold raises JudgingError: nobody knows what was there."""

    def __init__(self, root: Path, ignore_patterns: Sequence[str], gaps: Sequence[Gap]) -> None:
        super().__init__(root, ignore_patterns)
        self._gaps = gaps

    def read_bytes(self, path: str, limit: int = DEFAULT_READ_LIMIT) -> bytes:
        """See `Workspace.read_bytes`."""
        if self._gaps:
            inside = self._inside(path)
            self._refuse(gap for gap in self._gaps if gap.content and gap.path == inside)
        return super().read_bytes(path, limit)

    def entries(self, folder: str) -> Iterator[tuple[str, bool]]:
        """See `Workspace.entries`."""
        if self._gaps:
            inside = self._inside(folder)
            self._refuse(gap for gap in self._gaps if not gap.content and self._is_listed(gap, inside))
        return super().entries(folder)

    def _open(self, path: str, flags: int) -> int:
        if self._gaps and not path.startswith("/"):
            inside = self._inside(path)
            there = os.path.lexists(self.root / inside)
            self._refuse(gap for gap in self._gaps if not there and not gap.content and self._may_hold(gap, inside))
        return super()._open(path, flags)

    def _inside(self, path: str) -> str:
        try:
            real = os.path.realpath(self.root / path)
        except (OSError, ValueError):
            return path
        inside = os.path.relpath(real, self.root)
        return "" if inside == "." else inside

    @staticmethod
    def _is_listed(gap: Gap, folder: str) -> bool:
        if gap.names:
            return not gap.path or gap.path == folder
        return posixpath.dirname(gap.path) == folder

    @staticmethod
    def _may_hold(gap: Gap, path: str) -> bool:
        within = not gap.path or path == gap.path or path.startswith(f"{gap.path}/")
        return within or (gap.names and posixpath.dirname(path) == gap.path)

    def _refuse(self, gaps: Iterator[Gap]) -> None:
        if (gap := next(gaps, None)) is not None:
            raise not_in_record(str(gap))


def not_in_record(what: str) -> JudgingError:
    """The error of a criterion that would look at what the record does not hold."""
    return JudgingError(f"it cannot be judged from the record, which does not hold all: {what}")


def missing_of(gaps: Sequence[Gap]) -> Mapping[str, str]:
    """The gaps for the record."""
    return {gap.path or ".": gap.reason for gap in gaps}
