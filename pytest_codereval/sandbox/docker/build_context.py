"""The files that a build gets to see."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

from ...errors import Cause, TrialError
from ..key_places import KeyPlaces

_KEY = "sandbox.docker.dockerfile_path"
_INSTRUCTION = re.compile(r"(COPY|ADD|RUN)\s+(.*)", re.IGNORECASE | re.DOTALL)
_OPEN_ENDED = re.compile(r"[*?\[$]")


class _Digest(Protocol):
    def update(self, data: bytes, /) -> None: ...


class BuildContext:
    """The folder of a Dockerfile without what .dockerignore excludes, and without all that tells how tasks are judged.

    Where the folder is that of the task itself, instructions that take the whole of it are refused, since it holds
    graders that nobody can tell from other files. Raises TrialError(CONFIGURATION).
    """

    def __init__(self, dockerfile: Path, keys: KeyPlaces) -> None:
        self._dockerfile = dockerfile
        self._folder = str(dockerfile.parent)
        self._keys = keys
        try:
            if keys.hold(self._folder):
                raise _mistake(f"{dockerfile} lies in the reference or in another answer key")
            if keys.is_of_tasks(self._folder):
                self._refuse_whole_folder()
        except OSError as error:
            raise self._unreadable(error) from error

    def write(self, file: IO[bytes], digest: _Digest) -> None:
        """Write the files as a tar file, and feed all that decides a result to the digest. Raises TrialError."""
        try:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
                for path in self._paths():
                    self._add(tar, path, digest)
        except OSError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: OSError) -> TrialError:
        return _mistake(f"the folder of {self._dockerfile} cannot be read: {error}")

    def _add(self, tar: tarfile.TarFile, path: str, digest: _Digest) -> None:
        full = f"{self._folder}/{path}"
        if path == self._dockerfile.name:
            full = os.path.realpath(full)
        info = tar.gettarinfo(full, path)
        if info is None:
            return
        if info.islnk():
            info.type, info.size = tarfile.REGTYPE, os.lstat(full).st_size
        if not (info.isreg() or info.isdir() or info.issym()):
            return
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        info.mtime = int(info.mtime)
        digest.update(json.dumps([path, info.mode, info.size, info.linkname, info.type.decode()]).encode())
        if not info.isreg():
            tar.addfile(info)
            return
        with open(full, "rb") as content:
            tar.addfile(info, _Read(content, digest))

    def _paths(self) -> Iterator[str]:
        """Relative paths: the Dockerfile, by which programs know that this is a tar file, then folders and contents."""
        from docker.utils import exclude_paths  # type: ignore[import-untyped]

        wanted = exclude_paths(self._folder, self._ignored(), self._dockerfile.name)
        dropped: set[str] = set()
        yield self._dockerfile.name
        for path in sorted(wanted, key=lambda path: path.split("/")):
            if any(above in dropped for above in _above(path)):
                continue
            if path == self._dockerfile.name:
                continue
            if self._keys.drop(f"{self._folder}/{path}"):
                dropped.add(path)
                continue
            yield path

    def _ignored(self) -> list[str]:
        for name in (f"{self._dockerfile.name}.dockerignore", ".dockerignore"):
            place = Path(self._folder, name)
            if place.is_file():
                lines = [line.strip() for line in place.read_text("utf-8", "replace").splitlines()]
                return [line for line in lines if line and not line.startswith("#")]
        return []

    def _refuse_whole_folder(self) -> None:
        for source in _sources(self._dockerfile.read_text("utf-8", "replace")):
            first = os.path.normpath(source.lstrip("/") or ".").split("/")[0]
            if first in (".", "..") or _OPEN_ENDED.search(first):
                raise _mistake(
                    f"{self._dockerfile} takes {source!r} from a folder of tasks, which holds what the agent must not "
                    "see; name single files and folders, or put the Dockerfile into a folder of its own"
                )


class _Read:
    """A file that feeds what is read of it to a digest."""

    def __init__(self, file: IO[bytes], digest: _Digest) -> None:
        self._file = file
        self._digest = digest

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._digest.update(data)
        return data


def _above(path: str) -> Iterator[str]:
    parts = path.split("/")
    for count in range(1, len(parts)):
        yield "/".join(parts[:count])


def _sources(dockerfile: str) -> Iterator[str]:
    """What the instructions of a Dockerfile take from the context."""
    lines = "".join(line + "\n" for line in dockerfile.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"[\\`][ \t]*\n", " ", lines).splitlines():
        if (match := _INSTRUCTION.match(line.strip())) is None:
            continue
        words = _words(match[2])
        options = [word for word in words if word.startswith("--")]
        if match[1].upper() == "RUN":
            yield from (_bound(option) for option in options if _binds_context(option))
        elif not any(option.startswith("--from=") for option in options):
            given = [word for word in words if not word.startswith("--")][:-1]
            yield from (word for word in given if not word.startswith("<<") and "://" not in word)


def _words(text: str) -> list[str]:
    start = text.find("[")
    if start >= 0 and all(word.startswith("--") for word in text[:start].split()):
        with contextlib.suppress(ValueError):
            return [*text[:start].split(), *map(str, json.loads(text[start:]))]
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _binds_context(option: str) -> bool:
    fields = option.partition("=")[2].split(",")
    kinds = [field for field in fields if field.startswith("type=")]
    return option.startswith("--mount=") and kinds in ([], ["type=bind"]) and "from=" not in option


def _bound(option: str) -> str:
    fields = dict(field.partition("=")[::2] for field in option.partition("=")[2].split(","))
    return fields.get("source") or fields.get("src") or "."


def _mistake(message: str) -> TrialError:
    return TrialError(Cause.CONFIGURATION, f"{_KEY}: {message}")
