"""The files of an image: what a workspace starts with, and all of them for searches."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import posixpath
import shutil
import stat
import tarfile
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING

from ...errors import Cause, TrialError
from ...task.docker_models import working_dir_error
from ..grading_copy import GRADING_LIMITS
from ..opening import BENEATH, NO_LINKS, open_at
from .facts import Look, looking_into, opened

if TYPE_CHECKING:
    from ...task.models import SandboxConfig
    from .images import Image


MOST_SEARCHED = 16 << 30
"""Bytes of an image that are searched; more is an error."""

_KEY = "sandbox.docker.working_dir"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def working_dir_of(config: SandboxConfig, image: Image) -> str | None:
    """Where in the image the workspace lies too, as an absolute path; None when nothing asks for a place.

    `auto` is the image's own working directory, and no place where it sets none. Raises TrialError(CONFIGURATION) for
    one that the workspace cannot take the place of.
    """
    asked = config.docker.working_dir
    if asked is None:
        return None
    if asked == "auto":
        asked = image.working_dir
        if posixpath.normpath(asked or "/") == "/":
            return None
    path = posixpath.normpath(f"/{asked.lstrip('/')}")
    if (problem := working_dir_error(path)) is not None:
        raise TrialError(Cause.CONFIGURATION, f"{_KEY}: {path} of {image.name}: {problem}")
    return path


@dataclasses.dataclass(frozen=True)
class Seeded:
    """What a workspace got: how many files and folders, and each entry that was left out with the reason."""

    entries: int
    left_out: tuple[str, ...]


def seed_workspace(image: Image, folder: str, workspace: Path, labels: Mapping[str, str]) -> Seeded:
    """Fill an empty workspace with what the image holds in `folder`, which may be missing.

    Regular files, folders, and links that stay in the folder, those with an absolute target made relative. Files keep
    what their owner may do with them and their times, not their owner. Raises TrialError: CONFIGURATION for too much,
    SANDBOX when it cannot be read or written.
    """
    with looking_into(image.id, labels) as look:
        found = look.resolved(folder)
        if found is None:
            return Seeded(0, ())
        if not found.is_folder:
            raise TrialError(Cause.CONFIGURATION, f"{_KEY}: {folder} is no folder in {image.name}")
        places = tuple(dict.fromkeys((folder, found.path)))
        with look.archive(found.path) as chunks, opened(chunks) as members, _Seeding(workspace, places) as seeding:
            try:
                for member in members:
                    seeding.add(member, members)
                return seeding.finish()
            except OSError as error:
                reason = f"{_KEY}: what {image.name} has in {folder} cannot be put into the workspace: {error}"
                raise TrialError(Cause.SANDBOX, reason) from error


class _Seeding:
    """Writes members of a tar file below a workspace, by descriptors and never through a link."""

    def __init__(self, workspace: Path, places: tuple[str, ...]) -> None:
        self._root = os.open(workspace, _FOLDER)
        self._places = places
        self._links: dict[str, str] = {}
        self._left_out: list[str] = []
        self._entries = 0
        self._bytes = 0

    def __enter__(self) -> _Seeding:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def add(self, member: tarfile.TarInfo, members: tarfile.TarFile) -> None:
        """Write one member; links are kept for the end."""
        path = _inside(member.name)
        if path is None:
            self._left_out.append(f"{member.name}: not in the folder")
            return
        if not path:
            return
        self._count(member, path)
        if member.isdir():
            os.close(self._folder(path))
        elif member.isreg():
            content = members.extractfile(member)
            assert content is not None
            self._write(path, content, member)
        elif member.islnk():
            self._write_again(path, member)
        elif member.issym():
            self._keep_link(path, member.linkname)
        else:
            self._left_out.append(f"{path}: neither a file nor a folder nor a link")

    def finish(self) -> Seeded:
        """Make the links."""
        for path, target in self._links.items():
            parent = self._folder(posixpath.dirname(path))
            try:
                os.symlink(target, posixpath.basename(path), dir_fd=parent)
            finally:
                os.close(parent)
        return Seeded(self._entries, tuple(self._left_out))

    def _count(self, member: tarfile.TarInfo, path: str) -> None:
        self._entries += 1
        self._bytes += member.size
        limits = GRADING_LIMITS
        if (
            member.size > limits.file_bytes
            or self._bytes > limits.total_bytes
            or self._entries > limits.entries
            or path.count("/") >= limits.depth
        ):
            raise TrialError(
                Cause.CONFIGURATION,
                f"{_KEY}: the folder holds too much for a workspace: at {path} it has {self._entries} entries and "
                f"{self._bytes >> 20} MB",
            )

    def _folder(self, path: str) -> int:
        """An open descriptor of a folder, which is made with those above it."""
        folder = os.dup(self._root)
        for name in filter(None, path.split("/")):
            try:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=folder)
                below = os.open(name, _FOLDER, dir_fd=folder)
            finally:
                os.close(folder)
            folder = below
        return folder

    def _write(self, path: str, content: IO[bytes], member: tarfile.TarInfo) -> None:
        parent = self._folder(posixpath.dirname(path))
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(posixpath.basename(path), flags, 0o600, dir_fd=parent), "wb") as file:
                shutil.copyfileobj(content, file, 1 << 20)
                file.flush()
                os.fchmod(file.fileno(), stat.S_IMODE(member.mode) & 0o777 | 0o600)
                os.utime(file.fileno(), (member.mtime, member.mtime))
        finally:
            os.close(parent)

    def _write_again(self, path: str, member: tarfile.TarInfo) -> None:
        """Copy what an earlier member holds, of which this one is a hard link."""
        source = _inside(member.linkname)
        try:
            if not source:
                raise FileNotFoundError
            with open(_open_beneath(self._root, source), "rb") as content:
                member.size = os.fstat(content.fileno()).st_size
                self._count(member, path)
                self._write(path, content, member)
        except FileNotFoundError:
            self._left_out.append(f"{path}: a hard link to what is not in the folder")

    def _keep_link(self, path: str, target: str) -> None:
        parent = posixpath.dirname(path)
        if target.startswith("/"):
            normal = posixpath.normpath(target)
            inside = [place for place in self._places if normal == place or normal.startswith(f"{place}/")]
            relative = posixpath.relpath(normal, posixpath.join(inside[0], parent)) if inside else None
        else:
            normal = posixpath.normpath(posixpath.join(parent, target))
            relative = None if normal == ".." or normal.startswith("../") else target
        if relative is None:
            self._left_out.append(f"{path}: a link out of the folder, to {target}")
        else:
            self._links[path] = relative


def _inside(name: str) -> str | None:
    """The path of a member below the archived folder, empty for the folder itself; None when it lies elsewhere."""
    parts = name.split("/")
    if name.startswith("/") or ".." in parts or "\0" in name:
        return None
    return "/".join(part for part in parts[1:] if part not in ("", "."))


def _open_beneath(root: int, path: str) -> int:
    try:
        return open_at(root, path, os.O_RDONLY, BENEATH | NO_LINKS)
    except OSError as error:
        if error.errno in (getattr(os, "ENOSYS", 38), 1):
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
        raise


def contents(
    image: Image, labels: Mapping[str, str], most: int = MOST_SEARCHED
) -> Generator[tuple[str, int, IO[bytes]]]:
    """Absolute path, bytes and open content of every regular file of an image, each good until the next is asked for.

    A file with several names comes once. Raises TrialError(SANDBOX) when there are more than `most` bytes, or the image
    cannot be read.
    """
    with looking_into(image.id, labels) as look:
        yield from _files(look, image.name, most)


def _files(look: Look, name: str, most: int) -> Generator[tuple[str, int, IO[bytes]]]:
    total = 0
    with look.everything() as chunks, opened(chunks) as members:
        for member in members:
            if not member.isreg():
                continue
            total += member.size
            if total > most:
                raise TrialError(Cause.SANDBOX, f"the image {name} has more than the {most >> 20} MB that are searched")
            content = members.extractfile(member)
            assert content is not None
            yield f"/{member.name.lstrip('/')}", member.size, content
