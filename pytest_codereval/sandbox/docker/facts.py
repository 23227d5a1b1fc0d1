"""Looking at the files of an image without running anything of it: archive calls on a container that never starts."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import importlib
import io
import json
import tarfile
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from ...errors import Cause, TrialError
from .engine import client, daemon, explanation, status_of, told

_TIMEOUT = 120.0
_IS_FOLDER = 1 << 31
_IS_LINK = 1 << 27
_OTHER_KINDS = 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19
_STAT_HEADER = "X-Docker-Container-Path-Stat"
_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Entry:
    """What lies at a path of an image. `target` is where a link leads to in the end, without links, else empty."""

    path: str
    is_file: bool
    is_folder: bool
    executable: bool
    target: str


@contextlib.contextmanager
def patient_client(silence: float) -> Iterator[Any]:
    """A client of the SDK for work during which the daemon may be silent for `silence` seconds, for one thread."""
    used = daemon()
    api = importlib.import_module("docker").APIClient(
        base_url=f"unix://{used.socket}", version=used.api_version, timeout=silence
    )
    try:
        yield api
    finally:
        api.close()


def image_id(api: Any, name: str) -> str | None:
    """The id of an image that is here, by its name or id; None when it is not.

    Raises TrialError: CONFIGURATION for what can be no name, SANDBOX when the daemon fails.
    """
    with told(f"looking for the image {name!r}"):
        try:
            return str(api.inspect_image(name)["Id"])
        except Exception as error:
            if status_of(error) == 404:
                return None
            if status_of(error) != 400:
                raise
            reason = f"{name!r} can be no name of an image: {explanation(error)}"
            raise TrialError(Cause.CONFIGURATION, reason) from error


class Look:
    """The files of one image, by a container of it that is never started."""

    def __init__(self, api: Any, container: str) -> None:
        self._api = api
        self._container = container
        self._url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"

    def entry(self, path: str) -> Entry | None:
        """What lies at an absolute path, a link not being followed at its end; None when there is nothing."""
        answer = self._api.head(self._url, params={"path": path}, timeout=_TIMEOUT)
        if answer.status_code != 200 or _STAT_HEADER not in answer.headers:
            return None
        found = json.loads(base64.b64decode(answer.headers[_STAT_HEADER]))
        mode = int(found["mode"])
        is_folder, is_link = bool(mode & _IS_FOLDER), bool(mode & _IS_LINK)
        return Entry(
            path,
            is_file=not (is_folder or is_link or mode & _OTHER_KINDS),
            is_folder=is_folder,
            executable=bool(mode & 0o111),
            target=str(found.get("linkTarget") or "") if is_link else "",
        )

    def resolved(self, path: str) -> Entry | None:
        """As `entry`, links followed wherever they stand, so that its `path` has none; None when they lead nowhere."""
        real: str = ""
        found: Entry | None = None
        for name in path.strip("/").split("/"):
            found = self.entry(f"{real}/{name}")
            if found is not None and found.target:
                found = self.entry(found.target)
            if found is None:
                return None
            real = found.path
        return found

    def text(self, path: str, most: int = 1_000_000) -> str:
        """The beginning of a regular file, `most` bytes at most; empty when there is none."""
        found = self.resolved(path)
        if found is None or not found.is_file:
            return ""
        stream, _ = self._api.get_archive(self._container, found.path)
        with contextlib.closing(stream), tarfile.open(fileobj=_buffered(stream), mode="r|") as members:
            for member in members:
                if member.isreg() and (content := members.extractfile(member)) is not None:
                    return content.read(most).decode("utf-8", "replace")
        return ""

    def archive(self, path: str) -> contextlib.closing[Generator[bytes]]:
        """The folder at a path, not a link, as the bytes of a tar file."""
        return contextlib.closing(self._api.get_archive(self._container, path, chunk_size=_CHUNK)[0])

    def everything(self) -> contextlib.closing[Generator[bytes]]:
        """All files of the image as the bytes of a tar file."""
        return contextlib.closing(self._api.export(self._container, chunk_size=_CHUNK))


@contextlib.contextmanager
def looking_into(number: str, labels: Mapping[str, str]) -> Iterator[Look]:
    """The files of an image, by its id. The container that this needs has `labels` and is removed in the end.

    Raises TrialError(SANDBOX), also for an OSError of the caller's own.
    """
    with told(f"looking into the image {number[:19]}"):
        api = client(daemon())
        settings = api.create_host_config(network_mode="none")
        made = api.create_container(number, command=["sh"], entrypoint=[], host_config=settings, labels=dict(labels))
        try:
            yield Look(api, made["Id"])
        except tarfile.TarError as error:
            raise TrialError(Cause.SANDBOX, f"what the Docker daemon sends is no tar file: {error}") from error
        finally:
            api.remove_container(made["Id"], force=True, v=True)


class _Buffered(io.RawIOBase):
    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _buffered(chunks: Iterator[bytes]) -> io.BufferedReader:
    return io.BufferedReader(_Buffered(chunks), _CHUNK)


def opened(chunks: Iterator[bytes]) -> tarfile.TarFile:
    """The tar file of these bytes, to be read member by member. Raises tarfile.TarError."""
    return tarfile.open(fileobj=_buffered(chunks), mode="r|", errorlevel=1)
